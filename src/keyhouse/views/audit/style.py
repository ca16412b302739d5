"""The style sheet of the page: light, dark, narrow screens, and print."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--text:#1b2430;--soft:#566272;--back:#fff;--panel:#f5f7fa;
--line:#d8dee6;--green:#1e6b45;--green-back:#e8f5ee;--amber:#8a5a00;--amber-back:#fff5dc;
--red:#a3211a;--red-back:#fdecea;--grey:#4a5564;--grey-back:#eef1f5;
--code:#1f5fa8;--manifests:#6b3fa0;--people:#8a5a00;--witnesses:#1e6b45}
@media (prefers-color-scheme:dark){:root{--text:#e4e9f0;--soft:#a3afbf;--back:#12171e;
--panel:#1a212b;--line:#333e4c;--green:#6fcf9b;--green-back:#15291f;--amber:#f0bd5a;
--amber-back:#2e2510;--red:#ff8f86;--red-back:#341a18;--grey:#b3bdca;--grey-back:#1f2731;
--code:#7db3f2;--manifests:#c09bf0;--people:#f0bd5a;--witnesses:#6fcf9b}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:64rem;padding:1.5rem 1rem 3rem;
color:var(--text);background:var(--back)}
h1{font-size:1.7rem;line-height:1.2;margin:0}h2{font-size:1.25rem;margin:2.2rem 0 .4rem}
h3{font-size:1rem;margin:1rem 0 .2rem}
p{margin:.3rem 0}.soft{color:var(--soft)}ul{margin:.2rem 0;padding-left:1.2rem}
code{font:.875em/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
.light{display:flex;gap:1rem;align-items:center;margin:1.2rem 0;padding:1rem 1.2rem;
border:1px solid;border-left-width:.5rem;border-radius:.3rem}
.light b{display:block;font-size:1.25rem;line-height:1.3}.light p{color:var(--text)}
.lamp{flex:none;width:3rem;height:3rem;border-radius:50%;border:3px solid;text-align:center;
font:bold 1.8rem/2.6rem system-ui,sans-serif}
.green{color:var(--green);background:var(--green-back)}
.amber{color:var(--amber);background:var(--amber-back)}
.red{color:var(--red);background:var(--red-back)}
.grey{color:var(--grey);background:var(--grey-back)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.6rem;padding:0}
.cards li{list-style:none;background:var(--panel);border:1px solid var(--line);
border-radius:.3rem;padding:.5rem .8rem}.cards b{display:block;font-size:1.15rem}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
thead th{border-bottom:2px solid var(--line);color:var(--soft);font-size:.875rem}
td{overflow-wrap:anywhere}.number,.time{white-space:nowrap;font-variant-numeric:tabular-nums}
.time{font-size:.875rem;color:var(--soft)}.facts th{width:13rem;font-weight:600}
.mark{display:block;margin:.25rem 0 0;padding:.15rem .5rem;border-left:.25rem solid;
border-radius:.15rem;font-size:.9rem}.mark b{margin-right:.3rem}
.changes{font-size:.9rem;background:var(--panel);border-left:.25rem solid var(--manifests);
list-style:none;margin:.3rem 0;padding:.3rem .6rem}
.changes li{padding-left:1.2rem;text-indent:-1.2rem}
.line{overflow-x:auto}svg{width:100%;min-width:42rem;height:auto;background:var(--panel);
border:1px solid var(--line)}
svg text{fill:var(--text)}svg line{stroke:var(--line)}svg .seen{stroke:var(--soft);opacity:.35}
.lane-code{fill:var(--code)}.lane-manifests{fill:var(--manifests)}
.lane-people{fill:var(--people)}.lane-witnesses{fill:var(--witnesses)}
@media (max-width:40rem){body{padding:1rem .7rem}.facts tr,.rows tr{display:block;
padding:.4rem 0;border-bottom:1px solid var(--line)}.facts th,.facts td,.rows td{display:block;
width:auto;border:0;padding:.1rem 0}.rows thead{display:none}
.rows td[data-label]:before{content:attr(data-label) " ";color:var(--soft)}
.light{padding:.8rem}.lamp{width:2.4rem;height:2.4rem;font-size:1.4rem;line-height:2rem}}
@media print{svg{min-width:0}
:root{color-scheme:light;--text:#000;--soft:#444;--back:#fff;--panel:#fff;
--line:#999;--green:#1e6b45;--green-back:#fff;--amber:#7a4f00;--amber-back:#fff;--red:#a3211a;
--red-back:#fff;--grey:#333;--grey-back:#fff;--code:#1f5fa8;--manifests:#6b3fa0;
--people:#8a5a00;--witnesses:#1e6b45}
body{font-size:10pt;max-width:none;padding:0}h2{break-after:avoid}
tr,.light,.cards li,svg{break-inside:avoid}thead{display:table-header-group}
*{print-color-adjust:exact}@page{margin:15mm}}
"""
