import type { Sample } from '../sample.ts'

/** Rails that feed the whole module; where there is none, the sum of the rails is less than a wall meter shows. */
const moduleRails = ['VDD_IN', 'POM_5V_IN']

/** @param railsMw by label */
export function powerOf(railsMw: Readonly<Record<string, number>>): Partial<Sample['power']> {
  const rails = Object.entries(railsMw).filter(([label]) => !label.includes('NC'))
  if (rails.length === 0) return {}
  const railsW = Object.fromEntries(rails.map(([label, mw]) => [label, mw / 1_000]))
  const input = moduleRails.find((label) => label in railsW)
  const sumMw = rails.reduce((sum, [, mw]) => sum + mw, 0)
  return input === undefined
    ? { railsW, totalW: sumMw / 1_000, scope: 'rails' }
    : { railsW, totalW: railsW[input]!, scope: 'module' }
}
