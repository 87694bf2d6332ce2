// Pages of the reference show the first sentence of every function and class; a button shows the rest. Searches of the
// page and links to a part of it open what they find.
addEventListener("DOMContentLoaded", () => {
  if (!("onbeforematch" in document.body)) return;
  for (const body of document.querySelectorAll("section > dl.py > dd")) {
    const rest = [...body.children].slice(1);
    if (!rest.length) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "more" });
    const show = (open) => {
      for (const part of rest) part.hidden = open ? false : "until-found";
      button.textContent = open ? "less" : "more";
      button.ariaExpanded = open;
    };
    button.onclick = () => show(button.textContent === "more");
    body.addEventListener("beforematch", () => show(true));
    body.firstElementChild.after(button);
    show(false);
  }
  const openNamed = () => document.getElementById(location.hash.slice(1))?.closest("section > dl.py")
    ?.querySelector(":scope > dd")?.dispatchEvent(new Event("beforematch"));
  addEventListener("hashchange", openNamed);
  openNamed();
});
