/* Draws each <figure data-figure="ID"> from the JSON in #ID.
   A color in the JSON is the name of a custom property ("--bad"), so charts follow the page's scheme. */
(() => {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  // getPropertyValue would give the text light-dark(…); a used color is resolved.
  const resolved = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colored = (value) => {
    if (typeof value === "string") return value.startsWith("--") ? resolved(value) : value;
    if (Array.isArray(value)) return value.map(colored);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, colored(item)]));
  };
  const draw = (figure) => {
    const source = document.getElementById(figure.dataset.figure);
    if (!source || !window.Plotly) return;
    const { data, layout } = colored(JSON.parse(source.textContent));
    const font = { family: getComputedStyle(document.body).fontFamily, color: resolved("--ink"), size: 13 };
    figure.hidden = false;
    window.Plotly.react(
      figure.querySelector("[data-plot]"),
      data,
      { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", ...layout, font },
      { displayModeBar: false, responsive: true },
    );
  };
  const drawAll = () => document.querySelectorAll("figure[data-figure]").forEach(draw);

  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.body.addEventListener("htmx:afterSettle", drawAll);
})();
