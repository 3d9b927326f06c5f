import type { TelemetrySample } from '../../core/wire/protocol/http/devices.ts'

/** What the charts read of a sample, stored or just arrived. */
export type ChartedSample = Pick<
  TelemetrySample,
  'at' | 'power' | 'temperatures' | 'answers' | 'link' | 'load' | 'memory' | 'battery'
>

export interface ChartData {
  readonly title: string
  readonly unit: string
  /** UTC, in seconds, ascending. */
  readonly times: readonly number[]
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[]
}

type Figures = Readonly<Record<string, number | null | undefined>>

const kilo = (value: number | null | undefined) => (value == null ? null : value / 1_000)

const charts: readonly { readonly title: string; readonly unit: string; readonly of: (sample: ChartedSample) => Figures }[] = [
  { title: 'Power', unit: 'W', of: ({ power }) => ({ total: power?.totalW, ...power?.railsW }) },
  { title: 'Temperature', unit: '°C', of: ({ temperatures }) => ({ hottest: temperatures?.hottestC, ...temperatures?.zonesC }) },
  { title: 'Decoding', unit: 'tokens/s', of: ({ answers }) => answers?.decodeTokensPerS ?? {} },
  { title: 'Link', unit: 'kB/s', of: ({ link }) => ({ up: kilo(link?.upBytesPerS), down: kilo(link?.downBytesPerS) }) },
  { title: 'Round trip', unit: 'ms', of: ({ link }) => ({ 'to the bridge': link?.rttMs }) },
  {
    title: 'Load',
    unit: '%',
    of: ({ load, memory }) => ({ CPU: load?.cpuPercent, GPU: load?.gpuPercent, memory: usedPercent(memory) }),
  },
  { title: 'Battery', unit: '%', of: ({ battery }) => ({ level: battery?.levelPercent }) },
]

function usedPercent(memory: ChartedSample['memory']): number | null {
  if (memory?.totalBytes == null || memory.freeBytes === null || memory.totalBytes === 0) return null
  return 100 * (1 - memory.freeBytes / memory.totalBytes)
}

/** A chart of each group of figures of which at least one is known. @param samples of one device, in the order of their times */
export function chartsOf(samples: readonly ChartedSample[]): ChartData[] {
  const times = samples.map(({ at }) => Date.parse(at) / 1_000)
  return charts.flatMap(({ title, unit, of }) => {
    const figures = samples.map(of)
    const labels = [...new Set(figures.flatMap(Object.keys))]
    const lines = labels
      .map((label) => ({ label, values: figures.map((each) => each[label] ?? null) }))
      .filter(({ values }) => values.some((value) => value !== null))
    return lines.length === 0 ? [] : [{ title, unit, times, lines }]
  })
}

/** Adds what has just arrived: a sample that is stored already, or older than those, is left out. */
export function withLatest(samples: readonly ChartedSample[], latest: ChartedSample, max: number): readonly ChartedSample[] {
  const last = samples.at(-1)
  return last && Date.parse(latest.at) <= Date.parse(last.at) ? samples : [...samples, latest].slice(-max)
}
