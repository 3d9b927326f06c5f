import type { Sample } from '../sample.ts'

/** Constants that a Jetson's PMIC reports in place of a temperature. */
const pmicConstants = new Set([50, 100])

/**
 * Temperatures of the working zones. Names are the same on every release: "CPU-therm" and "cpu-thermal" become "cpu", and
 * the second zone of a name "name-2". Sensors that are off report -256 °C.
 */
export function temperaturesOf(zones: readonly (readonly [name: string, celsius: number])[]): Sample['temperatures'] {
  const zonesC: Record<string, number> = {}
  for (const [rawName, celsius] of zones) {
    const name = rawName.toLowerCase().replace(/[-_](?:therm|thermal)$/, '')
    if (celsius <= -100 || (name.startsWith('pmic') && pmicConstants.has(celsius))) continue
    let free = name
    for (let next = 2; free in zonesC; next++) free = `${name}-${next}`
    zonesC[free] = Math.round(celsius * 10) / 10
  }
  const all = Object.values(zonesC)
  return { zonesC, hottestC: all.length > 0 ? Math.max(...all) : null }
}
