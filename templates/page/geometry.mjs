// Plane geometry for the graph. Pure functions; y grows downwards, so "right of the way" is clockwise.

/** @typedef {{x: number, y: number}} Point */
/** @typedef {{from: Point, control: Point, to: Point}} Curve  a quadratic Bézier curve */

/**
 * The curve of one link direction: bent by `bend` x length to the right, moved by `shift` to the right.
 * Both directions of a pair have opposite normals, so each keeps to its own right side.
 * @param {Point} a @param {Point} b @param {number} bend @param {number} shift
 * @param {number} trim how much is cut off at either end (the radius of the nodes) @returns {Curve}
 */
export function linkCurve(a, b, bend, shift, trim) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const along = { x: (b.x - a.x) / length, y: (b.y - a.y) / length };
  const right = { x: -along.y, y: along.x };
  const control = {
    x: (a.x + b.x) / 2 + right.x * (bend * length * 2 + shift),
    y: (a.y + b.y) / 2 + right.y * (bend * length * 2 + shift),
  };
  return { from: toward(a, control, right, trim, shift), control, to: toward(b, control, right, trim, shift) };
}

/** The farthest point of a bent link. @param {Point} a @param {Point} b @param {number} bend @returns {Point} */
export function bentMiddle(a, b, bend) {
  return { x: (a.x + b.x) / 2 - (b.y - a.y) * bend, y: (a.y + b.y) / 2 + (b.x - a.x) * bend };
}

/** @param {Point} end @param {Point} control @param {Point} right @param {number} trim @param {number} shift */
function toward(end, control, right, trim, shift) {
  const moved = { x: end.x + right.x * shift, y: end.y + right.y * shift };
  const length = Math.hypot(control.x - moved.x, control.y - moved.y) || 1;
  const cut = Math.min(trim, length * 0.9);
  return { x: moved.x + ((control.x - moved.x) / length) * cut, y: moved.y + ((control.y - moved.y) / length) * cut };
}

/** @param {Curve} curve @param {number} t 0 to 1 @returns {Point} */
export function pointOn(curve, t) {
  const u = 1 - t;
  return {
    x: u * u * curve.from.x + 2 * u * t * curve.control.x + t * t * curve.to.x,
    y: u * u * curve.from.y + 2 * u * t * curve.control.y + t * t * curve.to.y,
  };
}

/** @param {Curve} curve @returns {string} the d attribute of an SVG path */
export function curvePath(curve) {
  const { from, control, to } = curve;
  return `M${fixed(from.x)} ${fixed(from.y)}Q${fixed(control.x)} ${fixed(control.y)} ${fixed(to.x)} ${fixed(to.y)}`;
}

/**
 * Where one is part of the way along a chain of curves of equal weight.
 * @param {number} curves how many @param {number} part 0 to 1 @returns {{index: number, part: number}}
 */
export function chainOf(curves, part) {
  const place = Math.min(Math.max(part, 0), 1) * curves;
  const index = Math.min(Math.floor(place), curves - 1);
  return { index, part: place - index };
}

/** @param {Point[]} points @returns {Point[]} their convex hull (Andrew's monotone chain) */
export function convexHull(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  if (sorted.length < 3) return sorted;
  /** @param {Point[]} list */
  const half = (list) => {
    /** @type {Point[]} */
    const chain = [];
    for (const p of list) {
      while (chain.length > 1 && turn(chain[chain.length - 2], chain[chain.length - 1], p) <= 0) chain.pop();
      chain.push(p);
    }
    chain.pop();
    return chain;
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

/** @param {Point} o @param {Point} a @param {Point} b @returns {number} > 0: o, a, b turn left (in maths' axes) */
function turn(o, a, b) {
  return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

/** @param {Point[]} hull @param {Point} p @returns {boolean} whether p lies inside or on a convex hull */
export function insideHull(hull, p) {
  if (hull.length < 3) return false;
  return hull.every((a, i) => turn(a, hull[(i + 1) % hull.length], p) >= -1e-9);
}

/**
 * A rounded outline around points: the hull of circles around them, as an SVG path.
 * @param {Point[]} points @param {number} pad radius of the circles @returns {string}
 */
export function outlinePath(points, pad) {
  const circles = points.flatMap((p) =>
    Array.from({ length: 24 }, (_, i) => ({
      x: p.x + pad * Math.cos((i * Math.PI) / 12),
      y: p.y + pad * Math.sin((i * Math.PI) / 12),
    })),
  );
  return convexHull(circles).map((p, i) => `${i ? "L" : "M"}${fixed(p.x)} ${fixed(p.y)}`).join("") + "Z";
}

/** @param {number} value @returns {number} */
function fixed(value) {
  return Math.round(value * 100) / 100;
}
