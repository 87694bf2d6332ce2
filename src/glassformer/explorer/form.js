// Inputs of the browser, made from fields: name, kind, label, help, text, error, and what their kind needs. Fields with
// the same group stand behind its name. An input that a person changes sends its name and text.
const make = (tag, given = {}, ...inside) => {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inside);
  return made;
};

// Each kind returns an element, a function that shows a text in it, and the input that a wrong text is marked at.
const kinds = {
  title: ({ label }) => [make("h2", { textContent: label }), () => {}],
  note() {
    const note = make("p", { className: "note" });
    return [note, (text) => { note.textContent = text; }];
  },
  tabs({ label, choices }, send) {
    const box = make("div", { role: "tablist", ariaLabel: label, className: "tabs" });
    const buttons = Object.entries(choices).map(([value, textContent]) => make("button", {
      type: "button", role: "tab", value, textContent, onclick: () => { show(value); send(value); } }));
    const show = (text) => buttons.forEach((button) => {
      const chosen = button.value === text;
      button.ariaSelected = chosen;
      button.tabIndex = chosen ? 0 : -1;
      // Once it has a place.
      if (chosen) requestAnimationFrame(() => { box.scrollLeft = button.offsetLeft - 40; });
    });
    box.onkeydown = (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = way && buttons[(buttons.indexOf(event.target) + way + buttons.length) % buttons.length];
      next?.focus();
      next?.click();
    };
    box.append(...buttons);
    return [box, show];
  },
  flag({ id, label, help }, send) {
    const input = make("input", { id, type: "checkbox", title: help, onchange: () => send(input.checked ? "yes" : "") });
    const box = make("div", { className: "flag" }, input, make("label", { htmlFor: id, textContent: label, title: help }));
    return [box, (text) => { input.checked = text !== ""; }, input];
  },
  choice({ id, label, help, choices }, send) {
    const options = Object.entries(choices).map(([value, textContent]) => make("option", { value, textContent }));
    const input = make("select", { id, title: help, onchange: () => send(input.value) }, ...options);
    const box = make("div", { className: "choice" }, make("label", { htmlFor: id, textContent: label, title: help }), input);
    return [box, (text) => { input.value = text; }, input];
  },
  text({ id, label, help, empty }, send) {
    const input = make("input", { id, title: help, placeholder: empty ?? "", onchange: () => send(input.value) });
    const box = make("div", { className: "text" }, make("label", { htmlFor: id, textContent: label, title: help }), input);
    return [box, (text) => { input.value = text; }, input];
  },
  slider(field, send) {
    const [box, write, input] = kinds.text(field, (text) => { show(text); send(text); });
    const range = make("input", { type: "range", min: field.start, max: field.end, step: field.step });
    const show = (text) => { write(text); if (isFinite(parseFloat(text))) range.value = text; };
    range.ariaLabel = `${field.label} slider`;
    range.oninput = () => { write(String(Number(Number(range.value).toPrecision(6)))); send(input.value); };
    box.className = "slider";
    box.append(range);
    return [box, show, input];
  },
  code({ id, label }, send) {
    const input = make("textarea", { id, rows: 9, spellcheck: false });
    const file = make("input", { type: "file", accept: ".py", ariaLabel: "Load a file" });
    file.onchange = async () => { input.value = await file.files[0].text(); };
    const run = make("button", { type: "button", textContent: "Run this code", onclick: () => send(input.value) });
    return [make("div", { className: "code" }, make("label", { htmlFor: id, textContent: label }), input, file, run),
      (text) => { input.value = text; }, input];
  },
};

export function render({ model }) {
  const form = make("div", { className: "form" });
  const written = {};
  let shows = {}, drawn, count = 0;
  const place = (field) => {
    let shown;
    const send = (text) => {
      shown = text;
      written[field.name] = { text, count: ++count };
      model.send_msg({ name: field.name, text, count });
    };
    const [box, show, input] = kinds[field.kind]({ ...field, id: field.name }, send);
    const error = make("p", { className: "refused", role: "alert", id: `${field.name}-error` });
    input?.setAttribute("aria-describedby", error.id);
    shows[field.name] = ({ text = "", error: told = "", heard = 0 }) => {
      // A person may have written something newer since, and expects it in an input that is made anew as well.
      const newest = written[field.name]?.count > heard ? written[field.name].text : text;
      if (newest !== shown) show(shown = newest);
      error.textContent = told;
      if (input) input.ariaInvalid = told !== "";
      if (told && box.closest("details")) box.closest("details").open = true;
    };
    return make("div", { className: `field ${field.look ?? ""}` }, box, ...(input ? [error] : []));
  };
  const update = () => {
    const outline = JSON.stringify(model.fields, (key, value) => (["text", "error", "heard"].includes(key) ? undefined : value));
    if (outline !== drawn) {
      const focused = form.getRootNode().activeElement?.id, open = form.querySelector("details[open] summary")?.textContent;
      const groups = {};
      form.replaceChildren();
      [shows, drawn] = [{}, outline];
      for (const field of model.fields) {
        if (field.group && !groups[field.group]) {
          groups[field.group] = make("details", { open: field.group === open }, make("summary", { textContent: field.group }));
          form.append(groups[field.group]);
        }
        (groups[field.group] ?? form).append(place(field));
      }
      if (focused) form.querySelector(`#${CSS.escape(focused)}`)?.focus();
    }
    for (const field of model.fields) shows[field.name](field);
  };
  update();
  model.on("fields", update);
  return form;
}
