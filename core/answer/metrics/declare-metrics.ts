import { Counter, Gauge, Histogram, type MetricObject, type Registry } from 'prom-client'

type Figure = number | null | undefined
/** What is counted elsewhere: read at each scrape, of several things by the value of one label. No sample where it is unknown. */
export type Read = () => Figure | Readonly<Record<string, Figure>>

export function declareMetrics(registry: Registry) {
  const registers = [registry]
  return {
    counter: (name: string, help: string, labelNames: readonly string[]) =>
      new Counter({ name, help, labelNames: [...labelNames], registers }),
    gauge: (name: string, help: string, labelNames: readonly string[]) =>
      new Gauge({ name, help, labelNames: [...labelNames], registers }),
    histogram: (name: string, help: string, buckets: number[], labelNames: readonly string[] = []) =>
      new Histogram({ name, help, labelNames: [...labelNames], buckets, registers }),
    collectedGauge(name: string, help: string, read: Read, label?: string): void {
      const metric: Gauge = new Gauge({
        ...{ name, help, labelNames: label === undefined ? [] : [label], registers },
        collect() {
          // A value of the label may be gone.
          metric.reset()
          if (label === undefined) metric.remove()
          for (const [labels, value] of samplesOf(read(), label)) metric.set(labels, value)
        },
      })
    },
    /** Always 1: what is true now, in labels. */
    collectedInfo(
      name: string,
      help: string,
      labelNames: readonly string[],
      read: () => readonly Record<string, string>[],
    ): void {
      const metric: Gauge = new Gauge({
        ...{ name, help: `Always 1${help}.`, labelNames: [...labelNames], registers },
        collect() {
          metric.reset()
          for (const labels of read()) metric.set(labels, 1)
        },
      })
    },
    /** Of what only grows. */
    collectedCounter(name: string, help: string, read: Read, label?: string): void {
      const metric: Counter = new Counter({
        ...{ name, help, labelNames: label === undefined ? [] : [label], registers },
        collect() {
          metric.reset()
          for (const [labels, value] of samplesOf(read(), label)) metric.inc(labels, value)
        },
      })
    },
  }
}

function samplesOf(values: ReturnType<Read>, label: string | undefined): (readonly [Record<string, string>, number])[] {
  const named = label === undefined || typeof values !== 'object' || values === null ? { '': values } : values
  return Object.entries(named).flatMap(([key, value]) =>
    typeof value === 'number' ? [[label === undefined ? {} : { [label]: key }, value] as const] : [],
  )
}

export interface ListedMetric {
  readonly name: string
  readonly type: string
  readonly labels: readonly string[]
  readonly help: string
}

/** What is measured, in alphabetical order, without values. */
export const listMetrics = (registry: Registry): ListedMetric[] =>
  registry
    .getMetricsAsArray()
    .map((metric) => {
      const { name, type, labelNames, help } = metric as Labelled
      return { name, type: String(type), labels: labelNames, help }
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))

/** The package's types leave the labels out. */
type Labelled = MetricObject & { readonly labelNames: readonly string[] }
