// Colours: of chunks (by origin) and of load. Pure functions.

// Okabe and Ito's colours, told apart with any common colour blindness; lightness differs between neighbours.
const EIGHT = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8a8f98"];

// Lightness runs one way, so the scale reads without hue. Pale means idle on light, dim means idle on dark.
const RAMPS = {
  light: ["#d4dae2", "#a3bedd", "#5b93cd", "#1f63b0", "#0a2f6c"],
  dark: ["#39424e", "#36608f", "#3f86cc", "#7dbcf4", "#d9eeff"],
};

/**
 * The colour of an origin. Up to eight origins have the colours above; more walk around the hues by the golden
 * angle with three lightnesses, and are told apart by their labels too.
 * @param {number} origin @param {number} origins how many there are @returns {string} #rrggbb
 */
export function originColour(origin, origins) {
  if (origins <= EIGHT.length) return EIGHT[origin % EIGHT.length];
  return hslToHex((origin * 137.508) % 360, 0.62, [0.42, 0.6, 0.74][origin % 3]);
}

/** @param {number} load 0 to 1 @param {"light"|"dark"} theme @returns {string} #rrggbb */
export function loadColour(load, theme) {
  const ramp = RAMPS[theme];
  const place = Math.min(Math.max(load, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  return mix(ramp[low], ramp[low + 1], place - low);
}

/** @param {string} colour #rrggbb @returns {string} black or white, whichever is read better on it */
export function textOn(colour) {
  const lightness = luminance(colour);
  return (lightness + 0.05) / 0.05 > 1.05 / (lightness + 0.05) ? "#111418" : "#ffffff";
}

/** @param {string} colour #rrggbb @returns {number} relative luminance (WCAG), 0 to 1 */
export function luminance(colour) {
  const [r, g, b] = channels(colour).map((c) => {
    const s = c / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** @param {string} a @param {string} b @param {number} part of b @returns {string} */
function mix(a, b, part) {
  const other = channels(b);
  return toHex(channels(a).map((c, i) => c + (other[i] - c) * part));
}

/** @param {string} colour @returns {number[]} */
function channels(colour) {
  return [1, 3, 5].map((i) => Number.parseInt(colour.slice(i, i + 2), 16));
}

/** @param {number[]} rgb @returns {string} */
function toHex(rgb) {
  return "#" + rgb.map((c) => Math.round(c).toString(16).padStart(2, "0")).join("");
}

/** @param {number} hue degrees @param {number} saturation @param {number} lightness @returns {string} */
function hslToHex(hue, saturation, lightness) {
  const spread = saturation * Math.min(lightness, 1 - lightness);
  return toHex([0, 8, 4].map((n) => {
    const k = (n + hue / 30) % 12;
    return 255 * (lightness - spread * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
  }));
}
