"""How Sphinx makes the site: `scripts/docs` runs it over the whole repository, into build/docs.

The root of the repository is the source, not `docs`, so that one link serves a page both here and
where the repository is browsed, also to SECURITY.md and its like.
"""

project = "Keyhouse"
author = "The Keyhouse developers"
project_copyright = author

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "deploy/**.md", "examples/**.md"]
include_patterns += ["benchmarks/*.md", "fuzz/*.md", "changelog.d/README.md"]
exclude_patterns = [".*", "build", "docs/_*", "docs/*.py"]

myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = "Keyhouse"
html_copy_source = False
html_show_sourcelink = False
templates_path = ["_templates"]
html_additional_pages = {"index": "to_the_first_page.html"}
