/** Condition of a device's battery; undefined where it cannot be read. */
export interface BatteryCondition {
  /** 0..1. */
  readonly level: number | undefined
  /** Whether it runs from mains power. */
  readonly isPlugged: boolean | undefined
}

/** λ: what a joule of the device is worth. */
export interface ExchangeRate {
  readonly dollarsPerJoule: number
  /** 'setting': the owner's; 'mains': plugged in, or without a battery; 'battery': by its level; 'unknown': level not readable. */
  readonly reason: 'setting' | 'mains' | 'battery' | 'unknown'
}

/**
 * Work per joule of a phone or a small board that decodes on its CPU. Assumed: the paper states energy in FLOPs only. Its phones
 * run 8 to 26 GFLOP/s in Table 6's counting, at a few watts.
 */
export const flopsPerJoule = 5e9

/**
 * Dollars per FLOP where energy is plenty and where it is scarce: DiSCo appendix E's conversion for its two settings.
 * **Reading**: the paper prints "per million FLOPs", which would make a token cost hundreds of dollars; per million GFLOP it
 * costs what servers charge.
 */
export const dollarsPerFlop = { plenty: 0.3e-15, scarce: 5e-15 } as const

/** The battery level at which energy counts as scarce. */
const scarceLevel = 0.2

/**
 * From mains power energy is plenty. On battery its price rises by the same factor with each percent that is gone, from plenty at
 * 100 % to scarce at 20 %, and so on below (twice that at empty). A battery whose level is not readable counts as scarce.
 * @param battery undefined: the device has none @param setting in dollars per joule
 */
export function exchangeRate(battery: BatteryCondition | undefined, setting?: number): ExchangeRate {
  if (setting !== undefined) return { dollarsPerJoule: setting, reason: 'setting' }
  const { plenty, scarce } = dollarsPerFlop
  if (!battery || battery.isPlugged) return { dollarsPerJoule: plenty * flopsPerJoule, reason: 'mains' }
  if (battery.level === undefined) return { dollarsPerJoule: scarce * flopsPerJoule, reason: 'unknown' }
  const scarcity = (1 - battery.level) / (1 - scarceLevel)
  return { dollarsPerJoule: plenty * (scarce / plenty) ** scarcity * flopsPerJoule, reason: 'battery' }
}
