import type { Flag } from '../cli/flags.ts'

export type SettingValue = string | number | boolean | readonly (string | number)[]

/** An option's value, and where it was set. */
export interface Setting {
  readonly value: SettingValue
  /** `/etc/brim/agent.yaml:12`, `--api-port` or `fleet`. */
  readonly source: string
}

/** By name of the option, without dashes. */
export type Settings = ReadonlyMap<string, Setting>

/** The option's effective value; null: not set, and without a default that can be shown. */
export interface EffectiveSetting {
  readonly name: string
  readonly value: SettingValue | null
  /** `default`, or as of a setting. */
  readonly source: string
}

/** The settings of all layers. @param layers the later ones take precedence */
export const mergeLayers = (...layers: readonly Settings[]): Settings => new Map(layers.flatMap((layer) => [...layer]))

export const effectiveSettings = (flags: readonly Flag[], settings: Settings): EffectiveSetting[] =>
  flags.map(({ name, fallback = null }) => {
    const { value, source } = settings.get(name) ?? { value: fallback, source: 'default' }
    return { name, value, source }
  })
