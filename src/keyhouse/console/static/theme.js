"use strict";
// Before the page is painted: the theme that was chosen in this browser, if one was.
{
  const chosen = localStorage.getItem("keyhouse-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
