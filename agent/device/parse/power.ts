import type { Sample } from '../sample.ts'

/** Rails that feed the whole module. Without one, the sum of the rails is less than a wall meter shows. */
const moduleRails = ['VDD_IN', 'POM_5V_IN']

/** @param railsMw mW by label of the rail */
export function powerOf(railsMw: Readonly<Record<string, number>>): Partial<Sample['power']> {
  const rails = Object.entries(railsMw).filter(([label]) => !label.includes('NC'))
  if (rails.length === 0) return {}
  const railsW = Object.fromEntries(rails.map(([label, mw]) => [label, mw / 1_000]))
  const input = moduleRails.find((label) => label in railsW)
  const totalMw = input === undefined ? rails.reduce((sum, [, mw]) => sum + mw, 0) : railsMw[input]!
  // The offset of a sensor can show as a negative current.
  return { railsW, totalW: Math.max(0, totalMw) / 1_000, scope: input === undefined ? 'rails' : 'module' }
}
