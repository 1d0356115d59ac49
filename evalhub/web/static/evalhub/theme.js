/* Keeps the reader's choice of light or dark. Without it the page follows the system. */
(() => {
  const root = document.documentElement;
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;

  const isDark = () => getComputedStyle(root).colorScheme === "dark"
    || (getComputedStyle(root).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-toggle]");
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem("theme", root.dataset.theme);
      label();
    });
  });
})();
