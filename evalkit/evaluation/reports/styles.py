"""The look of a report: one column, light and dark, and on paper."""

__all__ = ["STYLE"]

_LIGHT = "--paper:#fffffe;--ink:#1b1b1c;--quiet:#505154;--line:#cdced1;--link:#0072b2;--mind:#b84a00;--soft:#f4f4f5"
_DARK = "--paper:#16181c;--ink:#ececee;--quiet:#b3b4b8;--line:#45474d;--link:#56b4e9;--mind:#ff9955;--soft:#202329"

STYLE = f"""<style>
:root{{{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
html{{background:var(--paper);color:var(--ink)}}
body{{margin:0 auto;padding:1.5rem;max-width:1000px;font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}}
.ek{{font-size:15px;max-width:none;--jp-border-color2:var(--line);--jp-content-font-color1:var(--ink)}}
h1{{font-size:1.6rem;line-height:1.25;margin:.2em 0;overflow-wrap:anywhere}}
h2{{font-size:1.25rem;margin:1.8em 0 .4em;border-bottom:1px solid var(--line);padding-bottom:.2em}}
h3{{font-size:1.05rem;margin:1.4em 0 .3em;overflow-wrap:anywhere}} h4{{font-size:1rem}}
a{{color:var(--link)}} .mind{{color:var(--mind);font-weight:600}} .ek .note{{opacity:1;color:var(--quiet)}}
nav ul{{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1.2em;padding:0}}
.ek .tiles{{grid-template-columns:repeat(auto-fill,minmax(max(170px,calc((100% + 8px)/var(--columns,6) - 8px)),1fr))}}
.ek .tile{{background:var(--soft)}}
 .ek .tile span,.ek caption{{opacity:1;color:var(--quiet)}}
.ek caption{{font-size:.9em}} .ek table{{font-size:14px}}
pre,.text{{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);border:1px solid var(--line);
border-radius:4px;padding:.5em .7em;margin:.2em 0 .6em;font:13px/1.45 ui-monospace,monospace}}
.text{{font:inherit}} dt{{color:var(--quiet);font-size:.9em}} dd{{margin:0}}
article{{border:1px solid var(--line);border-radius:6px;padding:.2em 1em .8em;margin:.8em 0}}
article h4{{margin:.6em 0 .2em;overflow-wrap:anywhere}}
figure{{margin:1em 0}} footer{{color:var(--quiet);margin-top:2em}}
@media print{{:root{{{_LIGHT}}} body{{max-width:none;padding:0;font-size:9pt}} nav{{display:none}}
h1,h2,h3,h4{{break-after:avoid}} tr,.tile,figure,article{{break-inside:avoid}} dt{{break-after:avoid}}
thead{{display:table-header-group}}
.ek .wide{{overflow:visible}} .ek table{{font-size:7.5pt;width:100%}}
pre,.text{{padding:.2em .5em;margin:.1em 0 .3em;font-size:8pt}}
.text{{font-size:9pt}} article{{margin:.4em 0;padding:.1em .8em .4em}} figure svg{{width:82%;height:auto}}
.ek td,.ek th{{padding:2px 5px;white-space:normal}}
.ek td.l{{min-width:0;max-width:none}} section#items,section#used{{break-before:page}} a{{color:inherit}}
.tile,pre,.text{{-webkit-print-color-adjust:exact;print-color-adjust:exact}}}}
@page{{margin:16mm}}
</style>"""
"""Colours as in the plots; on paper always the light ones, no table cut off, no figure torn."""
