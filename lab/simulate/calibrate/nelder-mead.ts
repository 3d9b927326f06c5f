/** Edge of the first simplex. */
const edge = 0.7
const maxIterations = 2_000
/** Ends once the values at the corners differ by less. */
const tolerance = 1e-9

type Point = readonly number[]

/**
 * Minimises a function of a few numbers without derivatives (Nelder and Mead 1965): costs have kinks where a roofline's sides
 * meet.
 *
 * @returns where it is least, near the start
 */
export function minimise(cost: (point: Point) => number, start: Point): Point {
  const corner = (point: Point) => ({ point, value: cost(point) })
  const simplex = [start, ...start.map((_, i) => start.map((value, at) => (at === i ? value + edge : value)))].map(corner)
  for (let iteration = 0; iteration < maxIterations; iteration += 1) {
    simplex.sort((a, b) => a.value - b.value)
    const [best, worst] = [simplex[0]!, simplex.at(-1)!]
    if (worst.value - best.value < tolerance) break
    const others = simplex.slice(0, -1)
    const center = start.map((_, at) => others.reduce((sum, { point }) => sum + point[at]!, 0) / others.length)
    /** On the line from the worst corner through the centre of the others. */
    const along = (share: number) => corner(center.map((value, at) => value + share * (value - worst.point[at]!)))
    const reflected = along(1)
    const tried = reflected.value < best.value ? along(2) : reflected.value < others.at(-1)!.value ? reflected : along(-0.5)
    const better = tried.value < reflected.value ? tried : reflected
    if (better.value < worst.value) simplex[simplex.length - 1] = better
    else
      for (let i = 1; i < simplex.length; i += 1)
        simplex[i] = corner(simplex[i]!.point.map((value, at) => (value + best.point[at]!) / 2))
  }
  return simplex.sort((a, b) => a.value - b.value)[0]!.point
}
