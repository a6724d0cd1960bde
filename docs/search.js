// Ranks the pages of a search by where its words are: page title, heading, text. Sphinx counts one word in any
// heading as much as all words of the query in the page's title. It reads this file as html_search_scorer.
Search._performSearch = (query, searchTerms, excludedTerms, highlightTerms, objectTerms) => {
  const { docnames, filenames, titles, alltitles, indexentries, terms, titleterms } = Search._index;
  const stemmer = new Stemmer();
  const stems = (text) => splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word)).map((word) => stemmer.stemWord(word));
  const files = (index, word) => (Object.hasOwn(index, word) ? [index[word]].flat() : []);
  const wanted = [...searchTerms], pages = docnames.map(() => ({ score: 0, found: 0, best: 0, anchor: "", heading: "" }));
  // a word that is nowhere may be the beginning of others, or misses its stem
  const forms = new Map(wanted.map((word) => [word, Object.hasOwn(terms, word) || Object.hasOwn(titleterms, word) || word.length < 3 ? [word]
    : [terms, titleterms].flatMap((index) => Object.keys(index).filter((term) => term.startsWith(word) || (term.length > 3 && word.startsWith(term))))]));
  for (const word of wanted) {
    const places = new Map();
    for (const form of forms.get(word)) {
      for (const file of files(terms, form)) places.set(file, Math.max(places.get(file) ?? 0, 1));
      for (const file of files(titleterms, form)) places.set(file, 2);
    }
    const rare = Math.log(1 + docnames.length / (1 + places.size)); // a word that is on few pages says more
    for (const [file, weight] of places) (pages[file].score += weight * rare, pages[file].found++);
  }
  // a heading (or what readers call the page: docs/conf.py) with all words of the query counts most if it has no others
  const entries = [...Object.entries(alltitles), ...Object.entries(indexentries).filter(([entry]) => !entry.includes("("))];
  for (const [heading, places] of entries) {
    const words = [...new Set(stems(heading))], hits = wanted.filter((word) => words.some((other) => other === word || forms.get(word).includes(other))).length;
    if (!hits) continue;
    const covered = (hits / wanted.length) ** 2 * (0.5 + hits / (2 * words.length)) * 30;
    for (const [file, anchor] of places) {
      const page = pages[file], score = covered * (titles[file] === heading ? 1.3 : 1);
      if (score > page.best) Object.assign(page, { best: score, heading, anchor: titles[file] === heading || !(heading in alltitles) ? "" : `#${anchor}` });
    }
  }
  const kind = (name) => (name.startsWith("docs/adr") || name === "CHANGELOG" ? 0.3 : name.startsWith("docs/api") || name === "CONTRIBUTING" ? 0.5 : name.startsWith("notebooks/") || name === "README" ? 0.7 : 1);
  const excluded = new Set([...excludedTerms].flatMap((word) => [...files(terms, word), ...files(titleterms, word)]));
  const most = Math.max(...pages.map((page) => page.found));
  const results = pages.flatMap((page, file) => {
    if (!page.found && !page.best || excluded.has(file) || page.found < most - 1 && page.best < 15) return [];
    const score = (page.score * (page.found / wanted.length) ** 2 + page.best) * kind(docnames[file]);
    const title = page.anchor && page.best > 20 ? `${titles[file]} > ${page.heading}` : titles[file];
    return [[docnames[file], title, page.best > 20 ? page.anchor : "", null, score, filenames[file], SearchResultKind.text]];
  });
  // the name of a function, written in full, comes first; parts of names come last
  const name = query.toLowerCase().trim().replace(/^(evalkit|ek)\.|\(\)$/g, ""), objects = name.includes(" ") ? objectTerms : new Set([name]);
  const names = [...objects].flatMap((term) => Search.performObjectSearch(term, objects));
  names.forEach((item) => (item[4] = item[1].toLowerCase() === `evalkit.${name}` ? 60 : 1));
  return [...results, ...names].sort((a, b) => a[4] - b[4] || (a[1] < b[1] ? 1 : -1));
};
