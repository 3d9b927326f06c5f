import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** What is counted elsewhere: read at each scrape, of several things by the value of one label. */
type Read = () => number | Readonly<Record<string, number>>

/** Declares metrics of a registry. */
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
  if (typeof values === 'number') return [[{}, values]]
  return Object.entries(values).map(([key, value]) => [{ [label!]: key }, value])
}
