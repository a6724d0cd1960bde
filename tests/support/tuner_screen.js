// What overlaps, is cut, cannot be hit or is too small on the tuner's screen (see tuner_screen.py).
() => {
    const out = [], page = document.documentElement, root = document.querySelector('.ekw');
    if (page.scrollWidth > page.clientWidth) out.push(`the page scrolls sideways: ${page.scrollWidth} > ${page.clientWidth}`);
    const seen = (one) => { const box = one.getBoundingClientRect(); return box.width > 1 && box.height > 1 && one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && !one.closest('.ekw-sr, .ekw-skips'); };
    const name = (one) => `${one.tagName}.${one.className} '${(one.getAttribute('aria-label') || one.textContent || '').trim().slice(0, 30)}'`;
    const controls = [...root.querySelectorAll('button, a, input, select, textarea, summary')].filter(seen), cells = [...root.querySelectorAll('td, th')].filter(seen);
    const middle = (one) => { const box = one.getBoundingClientRect(); return document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height, innerHeight) / 2); };
    const meets = (one, hit) => hit && (one.contains(hit) || hit.closest('label')?.contains(one));
    for (const one of [...controls, ...cells]) {
        if (!meets(one, middle(one))) { // below the window, or under what stays at its top
            one.scrollIntoView({ block: 'center' });
            const hit = middle(one);
            if (!meets(one, hit)) out.push(`covered: ${name(one)} by ${hit ? name(hit) : 'nothing'}`);
        }
        const box = one.getBoundingClientRect();
        if (box.left < 0 || box.right > page.clientWidth + 0.5) out.push(`outside: ${name(one)}`);
        if (one.tagName === 'BUTTON' && (box.height < 23.9 || box.width < 23.9)) out.push(`small: ${name(one)} ${box.width} x ${box.height}`);
    }
    for (const one of root.querySelectorAll('*')) {
        if (!seen(one) || one.closest('.ekw-fold:not(.ekw-all), .ekw-two') || one.matches('.ekw-one, option, optgroup, select, textarea, input, tr, tbody, thead, table')) continue;
        const style = getComputedStyle(one);
        if (style.display === 'inline' || style.display === 'contents' || !one.clientWidth) continue;
        if (one.scrollWidth > one.clientWidth + 1) out.push(`overflows: ${name(one)} ${one.scrollWidth} > ${one.clientWidth}`);
        if (['hidden', 'clip', 'auto', 'scroll'].includes(style.overflowY) && !one.matches('.ekw-edit, .ekw-item, .ekw-columns-shown > div, .ekw-count') && one.scrollHeight > one.clientHeight + 1) out.push(`cut: ${name(one)} ${one.scrollHeight} > ${one.clientHeight}`);
    }
    for (const fold of root.querySelectorAll('.ekw-fold')) if (seen(fold) && fold.scrollHeight > fold.clientHeight + 1 && fold.nextElementSibling.hidden) out.push('folded without a control');
    scrollTo(0, 0);
    const boxes = controls.filter((one) => !one.closest('.ekw-top, .ekw-item-head, .ekw-acts')).map((one) => [one, one.getBoundingClientRect()]);
    boxes.forEach(([one, box], at) => boxes.slice(at + 1).forEach(([other, side]) => {
        if (one.closest('.ekw-edit, .ekw-item') !== other.closest('.ekw-edit, .ekw-item')) return; // what has scrolled away in its own pane
        const wide = Math.min(box.right, side.right) - Math.max(box.left, side.left), high = Math.min(box.bottom, side.bottom) - Math.max(box.top, side.top);
        if (wide > 1 && high > 1 && !one.contains(other) && !other.contains(one) && !one.matches('.ekw-list *')) out.push(`overlap: ${name(one)} / ${name(other)}`);
    }));
    for (const head of root.querySelectorAll('.ekw-matrix tbody th')) if (head.getBoundingClientRect().height > 52 || getComputedStyle(head).writingMode !== 'horizontal-tb') out.push(`not upright: ${name(head)}`);
    const widths = [...root.querySelectorAll('.ekw-list thead th')].map((one) => [one.className, one.getBoundingClientRect().width]), wide = widths.find(([kind]) => kind === 'ekw-t')?.[1] || 0;
    if (widths.some(([kind, width]) => kind !== 'ekw-t' && width >= wide)) out.push(`the text is not the widest: ${JSON.stringify(widths)}`);
    const strip = root.querySelector('.ekw-top')?.offsetHeight || 0;
    if (root.clientWidth >= 900 && strip > 120) out.push(`the strip is ${strip} px high`);
    return { findings: [...new Set(out)], strip, text: Math.round(wide), points: controls.length + cells.length };
}
