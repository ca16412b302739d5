"""How Sphinx makes the site: `scripts/docs` runs it over the whole repository, into build/docs.

The root of the repository is the source, not `docs`, so that one link serves a page both here and
where the repository is browsed, also to SECURITY.md and its like.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

project = "Keyhouse"
author = "The Keyhouse developers"
project_copyright = author

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "deploy/**.md", "examples/**.md"]
include_patterns += ["tools/*/*.md", "changelog.d/README.md"]
exclude_patterns = [".*", "build", "docs/_*", "docs/*.py"]

myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = "Keyhouse"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["keyhouse.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#215a94",
        "color-brand-content": "#215a94",
    },
    "dark_css_variables": {
        "color-brand-primary": "#94c4f2",
        "color-brand-content": "#94c4f2",
    },
}
templates_path = ["_templates"]
html_additional_pages = {"index": "to_the_first_page.html"}

# What a copy button takes: of a recorded session the commands, without their prompts.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"


def setup(app: Any) -> None:
    """Add what the pages themselves do not say: words of search, classes of the landing page."""
    from site_additions import LandingPage, SearchWords  # the path is known from here on

    app.add_transform(SearchWords)
    app.add_transform(LandingPage)
