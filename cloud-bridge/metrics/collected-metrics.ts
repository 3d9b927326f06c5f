import { Counter, Gauge, type Registry } from 'prom-client'

/** What is counted elsewhere, and read at each scrape. */
export interface Collected {
  readonly name: string
  readonly help: string
  /** Name of the label, where there is a value for each of several things. */
  readonly label?: string
  readonly read: () => number | Readonly<Record<string, number>>
}

export function collectGauge(registry: Registry, collected: Collected): void {
  const metric: Gauge = new Gauge({
    ...namesOf(collected),
    registers: [registry],
    collect() {
      for (const [labels, value] of samplesOf(collected)) metric.set(labels, value)
    },
  })
}

/** As collectGauge, for what only grows. */
export function collectCounter(registry: Registry, collected: Collected): void {
  const metric: Counter = new Counter({
    ...namesOf(collected),
    registers: [registry],
    collect() {
      metric.reset()
      for (const [labels, value] of samplesOf(collected)) metric.inc(labels, value)
    },
  })
}

const namesOf = ({ name, help, label }: Collected) => ({ name, help, labelNames: label === undefined ? [] : [label] })

function samplesOf({ label, read }: Collected): (readonly [Record<string, string>, number])[] {
  const values = read()
  if (typeof values === 'number') return [[{}, values]]
  return Object.entries(values).map(([key, value]) => [{ [label!]: key }, value])
}
