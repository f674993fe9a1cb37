"use strict";
// A list of kernels rules the charts that follow it: which are drawn, in which colour, and which is pointed at.
(() => {
  const COLOURS = 9; // --c0 to --c8

  function rule(list) {
    const boxes = [...list.querySelectorAll("input")];
    const slots = []; // a kernel keeps its place, and with it its colour, while others come and go
    let latest = 0;

    const views = () =>
      [...document.querySelectorAll(`[data-picker="${list.id}"]`)].map((place) => gdnbench.views.get(place.id));

    const tell = (name, value) => {
      for (const view of views()) if (view) view.signal(name, value).runAsync();
    };

    function place(box) {
      const at = slots.indexOf(box.value);
      if (box.checked && at < 0 && !("baseline" in box.dataset)) {
        const own = Number(box.dataset.slot); // its colour in every chart, unless another kernel has it by now
        while (slots.length <= own) slots.push("");
        const free = slots[own] ? slots.indexOf("") : own;
        slots[free < 0 ? slots.length : free] = box.value;
      } else if (!box.checked && at >= 0) {
        slots[at] = "";
      }
    }

    function swatch(box) {
      const slot = "baseline" in box.dataset ? "var(--ink)" : `var(--c${slots.indexOf(box.value) % COLOURS})`;
      box.parentElement.style.setProperty("--slot", box.checked ? slot : "transparent");
    }

    function update() {
      boxes.forEach(place);
      boxes.forEach(swatch);
      const baseline = boxes.filter((box) => "baseline" in box.dataset && box.checked).map((box) => box.value);
      const shown = [...slots, ...baseline];
      const turn = ++latest;
      gdnbench.drawn.then(() => turn === latest && tell("shown", shown));
    }

    function light(kernel) {
      const known = boxes.some((box) => box.value === kernel && box.checked);
      gdnbench.drawn.then(() => tell("lit", known ? kernel : ""));
    }

    const sets = { first: (box) => "first" in box.dataset, all: () => true, none: () => false };
    for (const button of list.querySelectorAll("[data-set]")) {
      button.addEventListener("click", () => {
        boxes.forEach((box) => (box.checked = sets[button.dataset.set](box)));
        update();
      });
    }
    for (const box of boxes) {
      box.addEventListener("change", update);
      for (const event of ["focus", "pointerenter"]) box.parentElement.addEventListener(event, () => light(box.value), true);
      for (const event of ["blur", "pointerleave"]) box.parentElement.addEventListener(event, () => light(""), true);
    }
    gdnbench.drawn.then(() => {
      for (const view of views()) {
        view.addEventListener("pointerover", (_event, item) => light(item?.datum?.kernel ?? ""));
        view.addEventListener("pointerout", () => light(""));
      }
    });
    update();
  }

  document.querySelectorAll(".picker").forEach(rule);
})();
