"use strict";
// Draws each chart from the specification beside it.
window.gdnbench = { views: new Map() };
(() => {
  const OPTIONS = {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };

  async function draw(script) {
    const place = document.getElementById(script.dataset.chart);
    const { view } = await vegaEmbed(place, JSON.parse(script.textContent), OPTIONS);
    gdnbench.views.set(place.id, view);
    place.dataset.drawn = "";
  }

  gdnbench.drawn = (async () => {
    for (const script of document.querySelectorAll("script[data-chart]")) await draw(script);
    document.documentElement.dataset.ready = "";
  })();
})();
