import type { Sample } from '../sample.ts'

/** What a Jetson's PMIC says whatever its temperature. */
const pmicConstants = new Set([50, 100])

/**
 * Zones that mean something, by names that are the same on every release ("CPU-therm" and "cpu-thermal" are "cpu"; the
 * second of a name is "name-2"). Sensors that are off read -256 °C.
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
