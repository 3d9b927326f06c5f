import { explained, isWithin, type PaperCell } from '../comparison.ts'
import { ablated, bursts, conservativenesses, intervalsMs, leftOut, long, onA6000, onH200, poissons, rates } from './cases.ts'
import type { FlowRun } from './runs.ts'
import { type Case, isRecording, nameOf, type ServerName, type SetupName } from './setups.ts'

export type Metric =
  | 'totalS'
  | 'effectivePerS'
  | 'rawPerS'
  | 'meanTtftS'
  | 'p50TtftS'
  | 'p99TtftS'
  | 'stalledS'
  | 'qos'
  | 'preemptions'
  | 'movedGb'

/** Means over seeds. */
export function means(runs: readonly FlowRun[]): (one: Case, metric: Metric) => number {
  const byName = new Map<string, FlowRun[]>()
  for (const run of runs) {
    const name = nameOf(caseOf(run))
    byName.set(name, [...(byName.get(name) ?? []), run])
  }
  return (one, metric) => {
    const own = byName.get(nameOf(one)) ?? []
    return own.reduce((sum, run) => sum + run[metric], 0) / own.length
  }
}

function caseOf({ setup, server, tokensPerS, intervalMs, conservativeness, without }: FlowRun): Case {
  return {
    ...{ setup, server },
    ...(tokensPerS !== undefined && { tokensPerS }),
    ...(intervalMs !== undefined && { intervalMs }),
    ...(conservativeness !== undefined && { conservativeness }),
    ...(without !== undefined && { without }),
  }
}

const remarks = [
  {
    where: /^Figs. 12 and 13,/,
    remark:
      'not the paper’s requests. On the A6000 memory is not what these lack: SGLang preempts none of them. On the H200, with 0.3 of its ' +
      'memory, they do, but the paper’s steps that wait for transfers then lose more than preemption gains; Brim’s do not wait',
  },
  {
    where: /^Fig. 16, bursts: (mean|effective)/,
    remark:
      'the H200 with 0.3 of its memory: SGLang serves 60 of the 400 requests at once. Simulated with 0.6 of it, (a) comes to −52 % and ' +
      '+71 %; the RTX 4090 (b) alone gives −51 % and +41 %. The fraction of the paper’s runs grew ("starting with 0.3"), it does not say how far',
  },
  {
    where: /^Fig. 16, 4090 \(b\): raw/,
    remark:
      'SGLang’s last answers begin after 78 s and run almost alone until 133 s. In the first 78 s it generates 125,000 tokens, TokenFlow ' +
      '147,000: it computes 28 preempted answers again',
  },
  {
    where: /^Fig. 17, Poisson, H200: mean/,
    remark:
      'depends on how long requests arrive, which the paper does not say: simulated, (c) gives −97 % for 60 s of arrivals, −84 % for 120 s ' +
      'and −69 % for 180 s, as the queue of what the GPU cannot generate grows',
  },
  {
    where: /^Table 2, .*: total$/,
    remark:
      'the lengths of Table 1 exclude 66 s: a GPU that reaches all of its data sheet, and launches in no time, takes 75 s for them, and ' +
      'this one 84 s with memory without limit. Answers of 1,365 tokens take 65 s: the paper’s ended earlier',
  },
  {
    where: /^Table 2, without offload: total, over/,
    remark:
      'follows how often requests are preempted: 50 times here. The same policy, giving away the memory that running answers are about to ' +
      'grow into, preempts 488 times and takes 83 times as long without offload as with it',
  },
]

/** The paper's figures beside those of the runs. */
export function cellsOf(runs: readonly FlowRun[]): readonly PaperCell[] {
  const mean = means(runs)
  const change = (setup: SetupName, server: ServerName, metric: Metric, changes: Partial<Case> = {}) =>
    100 * (mean({ setup, server, ...changes }, metric) / mean({ setup, server: 'SGLang', ...rateOf(changes) }, metric) - 1)
  const best = (setups: readonly SetupName[], metric: Metric, pick: (...values: number[]) => number) => {
    const of = (server: ServerName) => pick(...setups.map((setup) => change(setup, server, metric)))
    return { ours: of('TokenFlow'), improved: of('Brim'), unit: '%' }
  }
  const both = (one: Omit<Case, 'server'>, metric: Metric) => ({
    ours: mean({ ...one, server: 'TokenFlow' }, metric),
    improved: mean({ ...one, server: 'Brim' }, metric),
  })
  const gains = (setup: SetupName, metric: Metric, changes: Partial<Case> = {}) => ({
    ours: change(setup, 'TokenFlow', metric, changes),
    improved: change(setup, 'Brim', metric, changes),
    unit: '%',
  })
  const [poissonOn4090, poissonOnH200] = [poissons.slice(0, 2), poissons.slice(2)]
  const table2 = { '': 66, offload: 127.28, 'write-through': 82.76, 'load–evict overlap': 74.43 }
  const whole = { setup: ablated } as const
  const cells: PaperCell[] = [
    ...(runs.some(({ setup }) => isRecording(setup)) ? recordedCells() : []),
    ...(
      [
        ['P99 TTFT, greatest change against SGLang', -80.2, best(bursts, 'p99TtftS', Math.min)],
        ['mean TTFT, greatest change against SGLang', -48.4, best(bursts, 'meanTtftS', Math.min)],
        ['effective throughput, greatest change against SGLang', 52.9, best(bursts, 'effectivePerS', Math.max)],
      ] as const
    ).map(([metric, paper, values]) => ({ place: 'Fig. 16', row: 'bursts', metric, paper, ...values })),
    ...bursts.map((setup) => rawCell('Fig. 16', setup)),
    {
      ...{
        place: 'Fig. 17',
        row: 'Poisson, RTX 4090',
        metric: 'effective throughput, greatest change against SGLang',
        paper: 82.5,
      },
      ...best(poissonOn4090, 'effectivePerS', Math.max),
    },
    {
      ...{ place: 'Fig. 17', row: 'Poisson, H200', metric: 'mean TTFT, greatest change against SGLang', paper: -53.7 },
      ...best(poissonOnH200, 'meanTtftS', Math.min),
    },
    ...poissons.map((setup) => rawCell('Fig. 17', setup)),
    { place: 'Table 2', row: 'TokenFlow', metric: 'total', paper: table2[''], ...both(whole, 'totalS'), unit: 's' },
    ...leftOut.flatMap((without): PaperCell[] => {
      const [left, all] = [both({ ...whole, without }, 'totalS'), both(whole, 'totalS')]
      const paper = table2[without]
      const row = `without ${without}`
      return [
        { place: 'Table 2', row, metric: 'total', paper, ...left, unit: 's' },
        {
          ...{ place: 'Table 2', row, metric: 'total, over that of TokenFlow', paper: paper / table2[''], unit: '' },
          ...{ ours: left.ours / all.ours, improved: left.improved / all.improved },
        },
      ]
    }),
    ...rates.map((tokensPerS) => ({
      ...{
        place: 'Fig. 20',
        row: `readers of ${tokensPerS} tokens/s`,
        metric: 'effective throughput against SGLang',
        paper: null,
      },
      ...gains(ablated, 'effectivePerS', tokensPerS === 20 ? {} : { tokensPerS }),
    })),
    ...(['effectivePerS', 'meanTtftS'] as const).map((metric) => ({
      ...{ place: 'Fig. 21', row: 'Ascend 910B, burst', metric: `${shortNames[metric]} against SGLang`, paper: null },
      ...gains('Ascend 910B, burst', metric),
    })),
    ...([ablated, '4090 (d)'] as const).flatMap((setup) =>
      intervalsMs.flatMap((intervalMs) =>
        (['effectivePerS', 'meanTtftS'] as const).map((metric) => ({
          ...{ place: 'Fig. 22', row: `${setup}, Δt ${intervalMs / 1_000} s`, metric: shortNames[metric], paper: null },
          ours: mean({ setup, server: 'TokenFlow', ...(intervalMs === 500 ? {} : { intervalMs }) }, metric),
          unit: units[metric],
        })),
      ),
    ),
    ...([ablated, '4090 (d)'] as const).flatMap((setup) =>
      conservativenesses.map((conservativeness) => ({
        ...{ place: 'Fig. 23', row: `${setup}, μ_b ${conservativeness}`, metric: 'requests preempted', paper: null, unit: '' },
        ours: mean({ setup, server: 'TokenFlow', conservativeness }, 'preemptions'),
      })),
    ),
  ]
  return cells.map((cell) => (isWithin(cell) ? cell : explained(cell, remarkOf(cell))))

  /** On recorded requests that stand in for the paper's. Its averages are over both GPUs and traces (§7.2). */
  function recordedCells(): PaperCell[] {
    const all = [...onA6000, ...onH200]
    const average = (setups: readonly SetupName[], metric: Metric) => {
      const of = (server: ServerName) => setups.reduce((sum, setup) => sum + change(setup, server, metric), 0) / setups.length
      return { ours: of('TokenFlow'), improved: of('Brim'), unit: '%' }
    }
    const place = 'Figs. 12 and 13'
    const against = (metric: Metric) => `${shortNames[metric]} against SGLang`
    return [
      { place, row: 'mean of all', metric: against('meanTtftS'), paper: -52.6, ...average(all, 'meanTtftS') },
      { place, row: 'greatest of all', metric: against('p50TtftS'), paper: -88.7, ...best(all, 'p50TtftS', Math.min) },
      { place, row: 'A6000', metric: against('effectivePerS'), paper: 45.1, ...average(onA6000, 'effectivePerS') },
      { place, row: 'H200', metric: against('effectivePerS'), paper: 37.1, ...average(onH200, 'effectivePerS') },
      ...all.flatMap((setup) =>
        (['meanTtftS', 'p50TtftS', 'effectivePerS', 'rawPerS'] as const).map((metric) => ({
          ...{ place, row: setup, metric: against(metric), paper: null },
          ...gains(setup, metric),
        })),
      ),
      ...(['queued', 'running'] as const).map((which) => {
        const most = (server: ServerName) => {
          const { timeline } = runs.find((run) => run.setup === long && run.server === server)!
          return Math.max(...timeline![which])
        }
        const over = (server: ServerName) => 100 * (most(server) / most('SGLang') - 1)
        return {
          ...{ place: 'Figs. 14 and 15', row: long, metric: `requests ${which}, most at once, against SGLang`, paper: null },
          ...{ ours: over('TokenFlow'), improved: over('Brim'), unit: '%' },
        }
      }),
    ]
  }

  /** "Retains similar computational efficiency to SGLang" (§7.3). */
  function rawCell(place: string, setup: SetupName): PaperCell {
    const over = (server: ServerName) => mean({ setup, server }, 'rawPerS') / mean({ setup, server: 'SGLang' }, 'rawPerS')
    const values = { ours: over('TokenFlow'), improved: over('Brim') }
    return { place, row: setup, metric: 'raw throughput, over that of SGLang', paper: 1, ...values, unit: '' }
  }
}

const rateOf = ({ tokensPerS }: Partial<Case>) => (tokensPerS === undefined ? {} : { tokensPerS })

/** Why a figure differs, where that was looked into. */
const remarkOf = ({ place, row, metric }: PaperCell): string | undefined =>
  remarks.find(({ where }) => where.test(`${place}, ${row}: ${metric}`))?.remark

export const shortNames: Readonly<Record<Metric, string>> = {
  totalS: 'total',
  effectivePerS: 'effective throughput',
  rawPerS: 'raw throughput',
  meanTtftS: 'mean TTFT',
  p50TtftS: 'P50 TTFT',
  p99TtftS: 'P99 TTFT',
  stalledS: 'stalled, mean',
  qos: 'QoS',
  preemptions: 'preemptions',
  movedGb: 'KV moved',
}
export const units: Readonly<Record<Metric, string>> = {
  totalS: 's',
  effectivePerS: 'tokens/s',
  rawPerS: 'tokens/s',
  meanTtftS: 's',
  p50TtftS: 's',
  p99TtftS: 's',
  stalledS: 's',
  qos: '',
  preemptions: '',
  movedGb: 'GB',
}
