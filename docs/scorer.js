// Rank the results of the search: pages with tasks before reference, decisions and records of changes.
// Sphinx reads this file by html_search_scorer. The names and values of the fields below "score"
// are the defaults of Sphinx.
const ROOMS = [
  [/^docs\/tutorial\//, 3],
  [/^docs\/how-to\//, 2.5],
  [/^(README|SECURITY)$/, 1.5],
  [/^docs\/(explanation|reference)\//, 1],
  [/^examples\//, 0.8],
  [/^docs\/decisions\//, 0.1],
  [/^(CHANGELOG|changelog\.d\/|tools\/|ARCHITECTURE|CONTRIBUTING)/, 0.1],
];

var Scorer = {
  score: ([docname, _title, _anchor, _description, score]) => {
    const room = ROOMS.find(([names]) => names.test(docname));
    return score * (room ? room[1] : 0.8);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
