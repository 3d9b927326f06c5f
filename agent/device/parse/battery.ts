import { z } from 'zod'
import type { Sample } from '../sample.ts'

export type Battery = NonNullable<Sample['battery']>

/** One supply of /sys/class/power_supply, in the kernel's units: µW, µV, µA, µWh, µAh, tenths of °C, %. */
export interface Supply {
  readonly type: string | undefined
  readonly scope?: string | undefined
  readonly status?: string | undefined
  readonly online?: number | undefined
  readonly capacity?: number | undefined
  /** Full capacity, as energy or charge: the weight of one battery among several. */
  readonly full?: number | undefined
  readonly powerNow?: number | undefined
  readonly currentNow?: number | undefined
  readonly voltageNow?: number | undefined
  readonly temp?: number | undefined
}

const states: Readonly<Record<string, string>> = {
  charging: 'charging',
  discharging: 'discharging',
  full: 'full',
  'not charging': 'idle',
  not_charging: 'idle',
}
const stateOf = (status: string | undefined) => states[status?.trim().toLowerCase() ?? ''] ?? 'unknown'

/** Combines the batteries of this machine; those of peripherals (scope Device) do not count. The sign of a current depends on the driver. */
export function batteryOf(supplies: readonly Supply[]): Battery | undefined {
  const batteries = supplies.filter(({ type, scope }) => type === 'Battery' && scope !== 'Device')
  if (batteries.length === 0) return undefined
  const outlets = supplies.filter(({ type, online }) => type !== 'Battery' && online !== undefined)
  const levels = batteries.filter(({ capacity }) => capacity !== undefined)
  const weighs = levels.every(({ full }) => full !== undefined && full > 0)
  const weight = (supply: Supply) => (weighs ? supply.full! : 1)
  const weights = levels.reduce((sum, supply) => sum + weight(supply), 0)
  const level = levels.reduce((sum, supply) => sum + supply.capacity! * weight(supply), 0) / weights
  const powers = batteries.map(microwattsOf)
  const known = powers.every((power) => power !== undefined)
  const temps = batteries.flatMap(({ temp }) => (temp === undefined ? [] : [temp / 10]))
  const reported = batteries.map(({ status }) => stateOf(status))
  return {
    levelPercent: levels.length > 0 ? Math.min(100, Math.max(0, Math.round(level * 10) / 10)) : null,
    state: ['discharging', 'charging', 'idle', 'full'].find((state) => reported.includes(state)) ?? 'unknown',
    powerW: known ? Math.round(powers.reduce((sum: number, power) => sum + power!, 0) / 1e4) / 100 : null,
    tempC: temps.length > 0 ? Math.max(...temps) : null,
    isPlugged: outlets.length > 0 ? outlets.some(({ online }) => online! > 0) : null,
  }
}

function microwattsOf({ powerNow, currentNow, voltageNow }: Supply): number | undefined {
  if (powerNow !== undefined) return Math.abs(powerNow)
  if (currentNow === undefined || voltageNow === undefined) return undefined
  return (Math.abs(currentNow) * voltageNow) / 1e6
}

const TermuxBattery = z.object({
  present: z.boolean().optional(),
  percentage: z.number().min(0).max(100),
  status: z.string(),
  plugged: z.string().optional(),
  temperature: z.number().optional(),
})

/**
 * Parses the output of termux-battery-status. The power stays unknown: unit and sign of the current vary by phone.
 * @returns undefined if it cannot be parsed; null if there is no battery
 */
export function parseTermuxBattery(text: string): Battery | null | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  const parsed = TermuxBattery.safeParse(value)
  if (!parsed.success) return undefined
  const { present, percentage, status, plugged, temperature } = parsed.data
  if (present === false) return null
  return {
    levelPercent: percentage,
    state: stateOf(status),
    powerW: null,
    tempC: temperature === undefined ? null : Math.round(temperature * 10) / 10,
    isPlugged: plugged === undefined ? null : plugged.startsWith('PLUGGED_'),
  }
}
