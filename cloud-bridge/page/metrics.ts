import { errorText, type PageApi, pause } from './api.ts'
import { ViewModel } from './model.ts'

/** Values of one reading, by name and labels as the bridge writes them: `brim_jobs{state="queued"}`. */
export type MetricsReading = ReadonlyMap<string, number>

/** Reads Prometheus' text format, buckets of histograms left out. */
export function parseMetrics(text: string): MetricsReading {
  const values = new Map<string, number>()
  for (const [, name, value] of text.matchAll(/^(brim_\w+(?:\{.*\})?) (\S+)$/gm))
    if (!/_bucket\b/.test(name!)) values.set(name!, Number(value))
  return values
}

/** Sum over all labels. */
export const totalOf = (reading: MetricsReading, name: string): number =>
  [...reading].reduce((sum, [key, value]) => (key === name || key.startsWith(`${name}{`) ? sum + value : sum), 0)

const everyMs = 2_000
const kept = 900

/** The bridge's metrics, read while a component shows them. */
export class MetricsModel extends ViewModel {
  readonly #api: PageApi
  /** `atS`: UTC. */
  samples: readonly { readonly atS: number; readonly reading: MetricsReading }[] = []
  problem: string | undefined

  constructor(api: PageApi) {
    super()
    this.#api = api
  }

  get latest(): MetricsReading {
    return this.samples.at(-1)?.reading ?? new Map()
  }

  valuesOf(name: string): number[] {
    return this.samples.map(({ reading }) => totalOf(reading, name))
  }

  /** How a counter has grown per second, at the time of each reading. Null before the second, and where the bridge was restarted. */
  ratesOf(name: string): (number | null)[] {
    const values = this.valuesOf(name)
    return this.samples.map(({ atS }, at) => {
      const grown = at === 0 ? -1 : values[at]! - values[at - 1]!
      return grown < 0 ? null : grown / (atS - this.samples[at - 1]!.atS)
    })
  }

  async follow(signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await pause(everyMs, signal)) {
      try {
        const reading = parseMetrics(await (await this.#api.send('/metrics', { signal })).text())
        this.samples = [...this.samples, { atS: Date.now() / 1_000, reading }].slice(-kept)
        this.problem = undefined
      } catch (error) {
        this.problem = errorText(error)
      }
      this.changed()
    }
  }
}
