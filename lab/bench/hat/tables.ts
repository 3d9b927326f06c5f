import { quantile } from '../../../core/policy/estimate/quantile.ts'
import type { BenchDocument, Table } from '../../frame/bench.ts'
import {
  paperAblation,
  paperAlone,
  paperShares,
  paperStepMs,
  paperTbtOfHatOver,
  paperTtftMs,
} from '../../simulate/paper/hat/published.ts'
import { mean, medianOrNull, sum } from '../statistics.ts'
import {
  acceptLengthOf,
  answerKinds,
  answersOf,
  figuresOf,
  gapsOf,
  quantilesOf,
  type RunFigures,
  select,
  tbtOf,
} from './figures.ts'
import type { HatRun, Sample, Utilisation } from './runs.ts'
import { ablation, compared, type StrategyName, strategyNames } from './strategies.ts'
import { type WorkloadName, workloadNames } from './workload.ts'

export const runsOf = ({ runs }: BenchDocument) => runs as readonly HatRun[]

/** All tables that have rows. */
export function tablesOf(document: BenchDocument): Table[] {
  const runs = runsOf(document)
  const tables = [
    ...workloadNames.map((workload) => loadedTable(runs, workload)),
    ...workloadNames.map((workload) => loopTable(runs, workload)),
    ...workloadNames.map((workload) => stepTable(runs, workload)),
    useTable(runs),
    ...workloadNames.map((workload) => aloneTable(runs, workload)),
    secondTurnTable(runs),
    limitTable(runs),
    shareTable(document),
    ...workloadNames.map((workload) => ablationTable(runs, workload)),
    rateTable(runs),
    rttTable(runs),
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

/** The median over runs, of which there is one per seed. */
export function medianOf(runs: readonly HatRun[], figure: keyof RunFigures): number | null {
  return medianOrNull(runs.flatMap((run) => figuresOf(run)[figure] ?? []))
}

const ms = (value: number | null | undefined) => (value == null ? '–' : value.toFixed(1))
const ratio = (value: number | null | undefined) => (value == null ? '–' : value.toFixed(2))
const percent = (value: number | null | undefined) => (value == null ? '–' : `${(100 * value).toFixed(0)} %`)
const over = (a: number | null, b: number | null) => (a === null || b === null ? null : a / b)

/** One row for each strategy that has runs. */
function rowsOf<Name extends StrategyName>(
  strategies: readonly Name[],
  runsBy: (strategy: Name) => readonly HatRun[],
  cells: (strategy: Name, own: readonly HatRun[]) => string[],
): string[][] {
  return strategies.flatMap((strategy) => {
    const own = runsBy(strategy)
    return own.length === 0 ? [] : [[strategy, ...cells(strategy, own)]]
  })
}

function loadedTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const of = (strategy: (typeof compared)[number]) => select(runs, { measured: 'loaded', strategy, workload })
  const [hatTbt, shapeTtft] = [medianOf(of('hat'), 'tbtMs'), medianOf(of('u-shape'), 'ttftMs')]
  return {
    title: `Under load, ${workload} prompts: TTFT and TBT in ms`,
    head: [
      'strategy',
      ...['TTFT', 'p50', 'p95', 'over U-shape', 'paper'],
      ...['TBT', 'p50', 'p95', 'gaps p95', 'of HAT over it', 'paper'],
      'accept length',
      'n',
    ],
    rows: rowsOf(compared, of, (strategy, own) => {
      const [p50, p95] = [quantilesOf(own, 0.5), quantilesOf(own, 0.95)]
      const [ttftMs, tbtMs] = [medianOf(own, 'ttftMs'), medianOf(own, 'tbtMs')]
      const samples = own.flatMap((run) => run.samples)
      const paper = paperTtftMs[workload]
      return [
        ...[ms(ttftMs), ms(p50.ttftMs), ms(p95.ttftMs), ratio(over(ttftMs, shapeTtft))],
        ratio(paper[strategy] / paper['u-shape']),
        ...[ms(tbtMs), ms(p50.tbtMs), ms(p95.tbtMs), ms(quantile(samples.flatMap(gapsOf), 0.95))],
        ratio(over(hatTbt, tbtMs)),
        strategy === 'hat' ? '–' : ratio(paperTbtOfHatOver[workload][strategy]),
        ...[ratio(acceptLengthOf(samples)), String(samples.length)],
      ]
    }),
  }
}

/** Looping answers are easy to draft, so every figure of drafting is shown with and without them. */
function loopTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const of = (strategy: StrategyName) =>
    select(runs, { measured: 'loaded', strategy, workload }).flatMap(({ samples }) => samples)
  const [hat, allTokens] = [of('hat'), sum(of('hat').map(({ tokens }) => tokens))]
  const isRecorded = hat.some(({ looping }) => looping !== null)
  const rows = answerKinds.map((kind) => {
    const own = answersOf(hat, kind)
    const tbtMs = (strategy: StrategyName) => tbtOf(answersOf(of(strategy), kind))
    return [
      ...[kind, String(own.length), percent(sum(own.map(({ tokens }) => tokens)) / allTokens)],
      ...[ratio(acceptLengthOf(own)), ms(tbtMs('hat'))],
      ...compared.filter((name) => name !== 'hat').map((name) => ratio(over(tbtMs('hat'), tbtMs(name)))),
    ]
  })
  return {
    title: `HAT with and without looping answers, under load, ${workload} prompts`,
    head: [
      'answers',
      'n',
      'tokens',
      'accept length',
      'TBT',
      ...compared.flatMap((name) => (name === 'hat' ? [] : [`over ${name}`])),
    ],
    rows: isRecorded ? rows : [],
  }
}

function stepTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const of = (strategy: StrategyName) => select(runs, { measured: 'loaded', strategy, workload })
  return {
    title: `Delay of a cloud step, ${workload} prompts, ms`,
    head: ['strategy', 'mean', 'deviation', 'variation', 'paper: mean', 'deviation', 'variation'],
    rows: rowsOf(compared, of, (strategy, own) => {
      const [mean, deviation] = [medianOf(own, 'stepMs'), medianOf(own, 'stepDeviationMs')]
      const [paperMean, paperDeviation] = paperStepMs[workload][strategy]
      return [
        ...[ratio(mean), ratio(deviation), ratio(over(deviation, mean))],
        ...[ms(paperMean), ms(paperDeviation), ratio(paperDeviation / paperMean)],
      ]
    }),
  }
}

function useTable(runs: readonly HatRun[]): Table {
  const loaded = runs.filter(({ utilisation }) => utilisation !== null)
  const use = (run: HatRun, what: keyof Utilisation) => percent(run.utilisation?.[what])
  return {
    title: 'Use of the cores, by run',
    head: ['run', 'strategy', 'prompts', 'seed', 'requests/s', 'bridge', 'computing', 'agents, links, load', 'foreign', 'void'],
    rows: loaded.map((run) => [
      ...[run.measured, run.strategy, run.workload, String(run.seed), ratio(run.perS)],
      ...[use(run, 'bridge'), use(run, 'computing'), use(run, 'others'), use(run, 'foreign'), run.isVoid ? 'void' : ''],
    ]),
  }
}

function aloneTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const of = (strategy: StrategyName) => select(runs, { measured: 'alone', strategy, workload })
  const uShape = of('u-shape').flatMap(({ samples }) => samples)
  const meanTtftMs = (samples: readonly Sample[]) => mean(samples.map(({ ttftMs }) => ttftMs))
  const withoutLoops = (samples: readonly Sample[]) => answersOf(samples, 'without loops')
  return {
    title: `One device alone, ${workload} prompts, ms`,
    head: [
      ...['strategy', 'TTFT', 'p50', 'over U-shape', 'TBT', 'speed-up', 'paper', 'without loops'],
      ...['accept length', 'paper', 'without loops', 'n'],
    ],
    rows: rowsOf(strategyNames, of, (strategy, own) => {
      const samples = own.flatMap((run) => run.samples)
      const paper = strategy === 'hat' || strategy === 'u-medusa' ? paperAlone[workload][strategy] : undefined
      const tbtMs = tbtOf(samples)
      return [
        ...[ms(medianOf(own, 'ttftMs')), ms(quantilesOf(own, 0.5).ttftMs)],
        ratio(over(meanTtftMs(samples), meanTtftMs(uShape))),
        ...[ms(tbtMs), ratio(over(tbtOf(uShape), tbtMs)), ratio(paper?.[1])],
        ratio(over(tbtOf(withoutLoops(uShape)), tbtOf(withoutLoops(samples)))),
        ...[ratio(acceptLengthOf(samples)), ratio(paper?.[0]), ratio(acceptLengthOf(withoutLoops(samples)))],
        String(samples.length),
      ]
    }),
  }
}

function secondTurnTable(runs: readonly HatRun[]): Table {
  const own = runs.filter(({ measured }) => measured === 'second-turn')
  return {
    title: 'Second turns, one device alone: TTFT in ms',
    head: ['strategy', 'TTFT', 'prompt tokens', 'reused tokens'],
    rows: own.flatMap(({ strategy, samples }) =>
      samples.map(({ ttftMs, promptTokens, reusedTokens }) => [strategy, ms(ttftMs), String(promptTokens), String(reusedTokens)]),
    ),
  }
}

function limitTable(runs: readonly HatRun[]): Table {
  const own = select(runs, { measured: 'alone', strategy: 'hat', workload: 'long' }).flatMap(({ samples }) => samples)
  return {
    title: 'One device alone: TTFT of HAT and its lower limit, prompt by prompt, ms',
    head: ['prompt tokens', 'TTFT', 'limit', 'over', 'device', 'cloud'],
    rows: own.flatMap(({ promptTokens, ttftMs, prefill }) => {
      if (!prefill) return []
      const { limitMs, deviceMs, cloudMs } = prefill
      return [[String(promptTokens), ms(ttftMs), ms(limitMs), ratio(ttftMs / limitMs), ms(deviceMs), ms(cloudMs)]]
    }),
  }
}

function shareTable({ summary }: BenchDocument): Table {
  const { sharePercentDevice: device, sharePercentNetwork: network, sharePercentCloud: cloud } = summary
  if (device == null) return { title: '', head: [], rows: [] }
  return {
    title: 'TTFT of the longest prompts under U-shape, in percent',
    head: ['', 'device', 'network', 'cloud'],
    rows: [
      ['here', ms(device), ms(network), ms(cloud)],
      ['paper', ms(paperShares.device), ms(paperShares.network), ms(paperShares.cloud)],
    ],
  }
}

function ablationTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const first = runs.find(({ measured }) => measured === 'ablation')
  const rows = ablation.flatMap(({ row, strategy }) => {
    const own = runs.find(
      (run) =>
        (run.measured === 'ablation' || run.measured === 'loaded') &&
        !run.isVoid &&
        run.strategy === strategy &&
        run.workload === workload &&
        run.seed === first?.seed,
    )
    if (!own) return []
    const { ttftMs, tbtMs } = figuresOf(own)
    const paper = paperAblation[workload][row]
    return [[row, ms(ttftMs), ms(tbtMs), ms(paper?.[0]), ms(paper?.[1])]]
  })
  return {
    title: `Ablation under load, ${workload} prompts, ms: speculative decoding, prompt chunking, parallel drafting`,
    head: ['parts', 'TTFT', 'TBT', 'paper: TTFT', 'TBT'],
    rows: first ? rows : [],
  }
}

function rateTable(runs: readonly HatRun[]): Table {
  const other = runs.filter(({ measured }) => measured === 'rates')
  return {
    title: 'Under load at other rates, first seed, ms',
    head: ['prompts', 'strategy', 'requests/s', 'TTFT', 'TBT', 'void'],
    rows: other.map((run) => {
      const { ttftMs, tbtMs } = figuresOf(run)
      return [run.workload, run.strategy, ratio(run.perS), ms(ttftMs), ms(tbtMs), run.isVoid ? 'void' : '']
    }),
  }
}

function rttTable(runs: readonly HatRun[]): Table {
  const own = runs.filter(({ measured }) => measured === 'rtt')
  return {
    title: 'One device alone at other round-trip times, ms',
    head: ['RTT', 'prompts', 'strategy', 'TTFT', 'TBT'],
    rows: own.map((run) => {
      const { ttftMs, tbtMs } = figuresOf(run)
      return [String(run.rttMs), run.workload, run.strategy, ms(ttftMs), ms(tbtMs)]
    }),
  }
}
