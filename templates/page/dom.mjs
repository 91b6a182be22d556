// Small helpers over the DOM. Text always goes in as text, so no name of the user's can become markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag @param {Record<string, any>} [attributes] `class`, `on...` listeners, `data-*`, properties
 * @param {...(Node|string|null|false|undefined)} children @returns {HTMLElement}
 */
export function html(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), attributes, children));
}

/** @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node|string|null|false|undefined)} children */
export function svg(tag, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), attributes, children));
}

/** @param {Element} element @param {Record<string, any>} attributes @param {(Node|string|null|false|undefined)[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== false && child !== undefined) element.append(child);
  return element;
}

/** @param {string} id @returns {any} the element, which the page's shell must have */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element ${id}`);
  return element;
}

/** @param {HTMLSelectElement} select @param {[string, string][]} options value and text @param {string} chosen */
export function setOptions(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => html("option", { value }, text)));
  select.value = chosen;
}

/** @returns {{show: (lines: string[], x: number, y: number) => void, hide: () => void}} a tooltip near the pointer */
export function tooltip() {
  const box = byId("tip");
  return {
    show(lines, x, y) {
      box.replaceChildren(...lines.map((line, i) => html(i ? "div" : "strong", {}, line)));
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const left = x + 16 + width > window.innerWidth ? x - width - 12 : x + 16;
      box.style.left = `${Math.max(4, left)}px`;
      box.style.top = `${Math.max(4, Math.min(y + 14, window.innerHeight - height - 4))}px`;
    },
    hide() {
      box.hidden = true;
    },
  };
}
