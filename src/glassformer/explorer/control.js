let count = 0;
export function render({ model }) {
  const make = (tag, more = {}) => Object.assign(document.createElement(tag), more);
  const id = `control-${++count}`;
  const box = make("div", { className: `field ${model.kind}` });
  const error = make("p", { className: "refused", id: `${id}-error` });
  error.setAttribute("role", "alert");
  const send = (text) => { model.text = text; };
  let show;
  if (model.kind === "tabs") {
    box.setAttribute("role", "tablist");
    box.setAttribute("aria-label", model.label);
    let buttons;
    const offer = () => {
      buttons = Object.entries(model.choices).map(([text, label]) => {
        const button = make("button", { textContent: label, type: "button", onclick: () => send(text) });
        button.setAttribute("role", "tab");
        button.onkeydown = (event) => {
          const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          const next = way && buttons[(buttons.indexOf(button) + way + buttons.length) % buttons.length];
          next?.focus();
          next?.click();
        };
        button.dataset.text = text;
        return button;
      });
      box.replaceChildren(...buttons);
    };
    show = () => buttons.forEach((button) => {
      const chosen = button.dataset.text === model.text;
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
      // Once it has a place.
      if (chosen) requestAnimationFrame(() => { box.scrollLeft = button.offsetLeft - 40; });
    });
    offer();
    model.on("choices", () => { offer(); show(); });
  } else {
    const label = make("label", { htmlFor: id, textContent: model.label, title: model.help });
    const input = make(model.kind === "choice" ? "select" : "input", { id, title: model.help });
    input.setAttribute("aria-describedby", `${id}-error`);
    if (model.kind === "flag") {
      input.type = "checkbox";
      input.onchange = () => send(input.checked ? "yes" : "");
      show = () => { input.checked = model.text !== ""; };
      box.append(input, label);
    } else {
      const offer = () => input.replaceChildren(...Object.entries(model.choices).map(([value, textContent]) =>
        make("option", { value, textContent })));
      if (model.kind === "choice") { offer(); model.on("choices", () => { offer(); show(); }); }
      input.onchange = () => send(input.value);
      box.append(label, input);
      const range = make("input", { type: "range", min: model.start, max: model.end, step: model.step });
      range.setAttribute("aria-label", `${model.label} slider`);
      range.oninput = () => { input.value = Number(Number(range.value).toPrecision(6)); send(input.value); };
      if (model.kind === "slider") box.append(range);
      model.on("start", () => { range.min = model.start; });
      model.on("end", () => { range.max = model.end; range.step = model.step; show(); });
      show = () => { input.value = model.text; if (isFinite(parseFloat(model.text))) range.value = model.text; };
    }
    model.on("error", () => {
      error.textContent = model.error;
      input.setAttribute("aria-invalid", model.error !== "");
    });
    error.textContent = model.error;
  }
  show();
  model.on("text", show);
  const whole = make("div");
  whole.append(box, error);
  return whole;
}
