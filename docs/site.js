// Boxes that scroll, as wide tables and long lines of code, can be reached by the keyboard.
addEventListener("load", () => setTimeout(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, pre > code")) box.tabIndex = 0;
}));
