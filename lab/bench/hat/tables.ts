import type { BenchDocument, Table } from '../../frame/bench.ts'
import { runsBy, select } from '../../frame/runs.ts'
import { mean, over, quantileOrNull, sum } from '../../frame/statistics.ts'
import { type Column, tableOf, toDigits, toPercent } from '../../frame/tables.ts'
import {
  paperAblation,
  paperAlone,
  paperShares,
  paperStepMs,
  paperTbtOfHatOver,
  paperTtftMs,
} from '../../simulate/paper/hat/published.ts'
import { draftTables } from './draft-table.ts'
import {
  acceptLengthOf,
  answerKinds,
  answersOf,
  figuresOf,
  gapsOf,
  medianOf,
  quantileOf,
  runsOf,
  tbtOf,
  validRuns,
} from './figures.ts'
import { headlineTable } from './headline.ts'
import { cloudTable, roundTable } from './round-tables.ts'
import type { HatRun, Sample } from './runs.ts'
import { ablation, attribution, compared, type StrategyName, strategyNames } from './strategies.ts'
import { type WorkloadName, workloadNames } from './workload.ts'

export function tablesOf(document: BenchDocument): Table[] {
  const runs = runsOf(document)
  const each = (table: (runs: readonly HatRun[], workload: WorkloadName) => Table) =>
    workloadNames.map((workload) => table(runs, workload))
  return [
    headlineTable(runs),
    ...each(loadedTable),
    ...each(loopTable),
    ...each(stepTable),
    useTable(runs),
    busyTable(runs),
    ...each(aloneTable),
    attributionTable(runs, 'ttftMs', 'long'),
    attributionTable(runs, 'tbtMs', 'short'),
    roundTable(runs),
    cloudTable(document),
    secondTurnTable(runs),
    limitTable(runs),
    shareTable(document),
    ...each(ablationTable),
    rateTable(runs),
    rttTable(runs),
    ...draftTables(document),
  ]
}

const ms = (value: number | null | undefined) => toDigits(value, 1)
const ratio = (value: number | null | undefined) => toDigits(value, 2)

interface StrategyRuns<Name extends StrategyName = StrategyName> {
  readonly name: Name
  readonly runs: readonly HatRun[]
  readonly samples: readonly Sample[]
}

/** The valid runs of each strategy that has some. */
const ofStrategies = <Name extends StrategyName>(
  runs: readonly HatRun[],
  wanted: Pick<HatRun, 'measured' | 'workload'>,
  names: readonly Name[],
): StrategyRuns<Name>[] =>
  runsBy(validRuns(runs, wanted), 'strategy', names).map((own) => ({
    ...own,
    samples: own.runs.flatMap(({ samples }) => samples),
  }))

const samplesOf = (strategies: readonly StrategyRuns[], wanted: StrategyName): readonly Sample[] =>
  strategies.find(({ name }) => name === wanted)?.samples ?? []

function loadedTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const loaded = ofStrategies(runs, { measured: 'loaded', workload }, compared)
  const [hat, uShape] = (['hat', 'u-shape'] as const).map((strategy) =>
    validRuns(runs, { measured: 'loaded', workload, strategy }),
  )
  const paper = paperTtftMs[workload]
  return tableOf(`Under load, ${workload} prompts: TTFT and TBT in ms`, loaded, [
    ['strategy', ({ name }) => name],
    ['TTFT', (own) => ms(medianOf(own.runs, 'ttftMs'))],
    ['p50', ({ samples }) => ms(quantileOf(samples, 'ttftMs', 0.5))],
    ['p95', ({ samples }) => ms(quantileOf(samples, 'ttftMs', 0.95))],
    ['over U-shape', (own) => ratio(over(medianOf(own.runs, 'ttftMs'), medianOf(uShape!, 'ttftMs')))],
    ['paper', ({ name }) => ratio(paper[name] / paper['u-shape'])],
    ['TBT', (own) => ms(medianOf(own.runs, 'tbtMs'))],
    ['p50', ({ samples }) => ms(quantileOf(samples, 'tbtMs', 0.5))],
    ['p95', ({ samples }) => ms(quantileOf(samples, 'tbtMs', 0.95))],
    ['gaps p95', ({ samples }) => ms(quantileOrNull(samples.flatMap(gapsOf), 0.95))],
    ['of HAT over it', (own) => ratio(over(medianOf(hat!, 'tbtMs'), medianOf(own.runs, 'tbtMs')))],
    ['paper', ({ name }) => ratio(name === 'hat' ? null : paperTbtOfHatOver[workload][name])],
    ['accept length', ({ samples }) => ratio(acceptLengthOf(samples))],
    ['n', ({ samples }) => String(samples.length)],
  ])
}

/** Looping answers are easy to draft, so every figure of drafting is shown with and without them. */
function loopTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const loaded = ofStrategies(runs, { measured: 'loaded', workload }, compared)
  const hat = samplesOf(loaded, 'hat')
  const isRecorded = hat.some(({ looping }) => looping !== null)
  const rows = answerKinds.map((kind) => {
    const tbtMs = (strategy: StrategyName) => tbtOf(answersOf(samplesOf(loaded, strategy), kind))
    return { kind, own: answersOf(hat, kind), tbtMs }
  })
  const tokensOf = (samples: readonly Sample[]) => sum(samples.map(({ tokens }) => tokens))
  return tableOf(`HAT with and without looping answers, under load, ${workload} prompts`, isRecorded ? rows : [], [
    ['answers', ({ kind }) => kind],
    ['n', ({ own }) => String(own.length)],
    ['tokens', ({ own }) => toPercent(tokensOf(own) / tokensOf(hat))],
    ['accept length', ({ own }) => ratio(acceptLengthOf(own))],
    ['TBT', ({ tbtMs }) => ms(tbtMs('hat'))],
    ...compared
      .filter((name) => name !== 'hat')
      .map((name): Column<(typeof rows)[number]> => [`over ${name}`, ({ tbtMs }) => ratio(over(tbtMs('hat'), tbtMs(name)))]),
  ])
}

function stepTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const paper = paperStepMs[workload]
  return tableOf(
    `Delay of a cloud step, ${workload} prompts, ms`,
    ofStrategies(runs, { measured: 'loaded', workload }, compared),
    [
      ['strategy', ({ name }) => name],
      ['mean', (own) => ratio(medianOf(own.runs, 'stepMs'))],
      ['deviation', (own) => ratio(medianOf(own.runs, 'stepDeviationMs'))],
      ['variation', (own) => ratio(over(medianOf(own.runs, 'stepDeviationMs'), medianOf(own.runs, 'stepMs')))],
      ['paper: mean', ({ name }) => ms(paper[name][0])],
      ['deviation', ({ name }) => ms(paper[name][1])],
      ['variation', ({ name }) => ratio(paper[name][1] / paper[name][0])],
    ],
  )
}

const verdict = ({ isVoid }: HatRun) => (isVoid ? 'void' : '')

function useTable(runs: readonly HatRun[]): Table {
  return tableOf(
    'Use of the cores, by run',
    runs.filter(({ utilisation }) => utilisation !== null),
    [
      ['run', ({ measured }) => measured],
      ['strategy', ({ strategy }) => strategy],
      ['prompts', ({ workload }) => workload],
      ['seed', ({ seed }) => String(seed)],
      ['requests/s', ({ perS }) => ratio(perS)],
      ['bridge', ({ utilisation }) => toPercent(utilisation?.bridge)],
      ['computing', ({ utilisation }) => toPercent(utilisation?.computing)],
      ['agents, links, load', ({ utilisation }) => toPercent(utilisation?.others)],
      ['foreign', ({ utilisation }) => toPercent(utilisation?.foreign)],
      ['void', verdict],
    ],
  )
}

function aloneTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const alone = ofStrategies(runs, { measured: 'alone', workload }, strategyNames)
  const uShape = samplesOf(alone, 'u-shape')
  const meanTtftMs = (samples: readonly Sample[]) => mean(samples.map(({ ttftMs }) => ttftMs))
  const withoutLoops = (samples: readonly Sample[]) => answersOf(samples, 'without loops')
  const paper = (name: StrategyName) => (name === 'hat' || name === 'u-medusa' ? paperAlone[workload][name] : undefined)
  return tableOf(`One device alone, ${workload} prompts, ms`, alone, [
    ['strategy', ({ name }) => name],
    ['TTFT', (own) => ms(medianOf(own.runs, 'ttftMs'))],
    ['p50', ({ samples }) => ms(quantileOf(samples, 'ttftMs', 0.5))],
    ['over U-shape', ({ samples }) => ratio(over(meanTtftMs(samples), meanTtftMs(uShape)))],
    ['KB up', ({ samples }) => ms(mean(samples.map(({ bytesUp }) => bytesUp / 1_000)))],
    ['KB down', ({ samples }) => ms(mean(samples.map(({ bytesDown }) => bytesDown / 1_000)))],
    ['TBT', ({ samples }) => ms(tbtOf(samples))],
    ['speed-up', ({ samples }) => ratio(over(tbtOf(uShape), tbtOf(samples)))],
    ['paper', ({ name }) => ratio(paper(name)?.[1])],
    ['without loops', ({ samples }) => ratio(over(tbtOf(withoutLoops(uShape)), tbtOf(withoutLoops(samples))))],
    ['accept length', ({ samples }) => ratio(acceptLengthOf(samples))],
    ['paper', ({ name }) => ratio(paper(name)?.[0])],
    ['without loops', ({ samples }) => ratio(acceptLengthOf(withoutLoops(samples)))],
    ['n', ({ samples }) => String(samples.length)],
  ])
}

/** A bridge with enough to do for steps to wait for one another. */
function busyTable(runs: readonly HatRun[]): Table {
  return tableOf('A busy bridge: the demonstration model with layers that change nothing', select(runs, { measured: 'busy' }), [
    ['prompts', ({ workload }) => workload],
    ['strategy', ({ strategy }) => strategy],
    ['computing', ({ utilisation }) => toPercent(utilisation?.computing)],
    ['steps of several', ({ steps }) => toPercent(over(steps.filter(({ items }) => items > 1).length, steps.length))],
    ['streams per step', ({ steps }) => ratio(mean(steps.map(({ items }) => items)))],
    ['step, ms', (run) => ratio(figuresOf(run).stepMs)],
    ['deviation', (run) => ratio(figuresOf(run).stepDeviationMs)],
    ['TTFT, ms', (run) => ms(figuresOf(run).ttftMs)],
    ['TBT, ms', (run) => ms(figuresOf(run).tbtMs)],
    ['void', verdict],
  ])
}

/** What each part changes, and its share of what HAT gains over U-shape: one device alone, answers without loops. */
function attributionTable(runs: readonly HatRun[], figure: keyof typeof attribution, workload: WorkloadName): Table {
  const figureOf = (strategy: StrategyName) => {
    const samples = samplesOf(ofStrategies(runs, { measured: 'alone', workload }, [strategy]), strategy)
    const own = answersOf(samples, 'without loops')
    return figure === 'tbtMs' ? tbtOf(own) : mean(own.map(({ ttftMs }) => ttftMs))
  }
  const [none, all] = [figureOf('u-shape'), figureOf('hat')]
  let before: number | null = null
  const rows = attribution[figure].flatMap(({ part, strategy }) => {
    const value = figureOf(strategy)
    if (value === null) return []
    const change = before === null ? null : value - before
    before = value
    // Where HAT gains nothing, no part has a share of it.
    const gain = none === null || all === null ? 0 : none - all
    const share = change === null || gain <= 0 ? null : -change / gain
    return [{ part, strategy, value, change, share }]
  })
  const name = figure === 'ttftMs' ? 'TTFT' : 'TBT'
  return tableOf(`What ${name} has of each part, one device alone, ${workload} prompts, ms`, rows, [
    ['with', ({ part }) => part],
    ['strategy', ({ strategy }) => strategy],
    [name, ({ value }) => ms(value)],
    ['change', ({ change }) => ms(change)],
    ["share of HAT's gain", ({ share }) => toPercent(share)],
  ])
}

function secondTurnTable(runs: readonly HatRun[]): Table {
  const turns = select(runs, { measured: 'second-turn' }).flatMap(({ strategy, samples }) =>
    samples.map((sample) => ({ strategy, ...sample })),
  )
  return tableOf('Second turns, one device alone: TTFT in ms', turns, [
    ['strategy', ({ strategy }) => strategy],
    ['TTFT', ({ ttftMs }) => ms(ttftMs)],
    ['prompt tokens', ({ promptTokens }) => String(promptTokens)],
    ['reused tokens', ({ reusedTokens }) => String(reusedTokens)],
  ])
}

function limitTable(runs: readonly HatRun[]): Table {
  const prompts = validRuns(runs, { measured: 'alone', strategy: 'hat', workload: 'long' }).flatMap(({ samples }) =>
    samples.flatMap(({ prefill, promptTokens, ttftMs }) => (prefill ? [{ ...prefill, promptTokens, ttftMs }] : [])),
  )
  return tableOf('One device alone: TTFT of HAT and its lower limit, prompt by prompt, ms', prompts, [
    ['prompt tokens', ({ promptTokens }) => String(promptTokens)],
    ['TTFT', ({ ttftMs }) => ms(ttftMs)],
    ['limit', ({ limitMs }) => ms(limitMs)],
    ['over', ({ ttftMs, limitMs }) => ratio(ttftMs / limitMs)],
    ['device', ({ deviceMs }) => ms(deviceMs)],
    ['cloud', ({ cloudMs }) => ms(cloudMs)],
  ])
}

function shareTable({ summary }: BenchDocument): Table {
  const { sharePercentDevice: device, sharePercentNetwork: network, sharePercentCloud: cloud } = summary
  const rows = [
    { of: 'here', device, network, cloud },
    { of: 'paper', ...paperShares },
  ]
  return tableOf('TTFT of the longest prompts under U-shape, in percent', device == null ? [] : rows, [
    ['', (share) => share.of],
    ['device', (share) => ms(share.device)],
    ['network', (share) => ms(share.network)],
    ['cloud', (share) => ms(share.cloud)],
  ])
}

function ablationTable(runs: readonly HatRun[], workload: WorkloadName): Table {
  const first = runs.find(({ measured }) => measured === 'ablation')
  const valid = first ? validRuns(runs, { workload, seed: first.seed }) : []
  const own = valid.filter(({ measured }) => measured === 'ablation' || measured === 'loaded')
  const rows = ablation.flatMap(({ row, strategy }) => {
    const run = own.find((each) => each.strategy === strategy)
    return run ? [{ row, ...figuresOf(run), paper: paperAblation[workload][row] }] : []
  })
  return tableOf(`Ablation under load, ${workload} prompts, ms: speculative decoding, prompt chunking, parallel drafting`, rows, [
    ['parts', ({ row }) => row],
    ['TTFT', ({ ttftMs }) => ms(ttftMs)],
    ['TBT', ({ tbtMs }) => ms(tbtMs)],
    ['paper: TTFT', ({ paper }) => ms(paper?.[0])],
    ['TBT', ({ paper }) => ms(paper?.[1])],
  ])
}

const rateTable = (runs: readonly HatRun[]) =>
  tableOf('Under load at other rates, first seed, ms', select(runs, { measured: 'rates' }), [
    ['prompts', ({ workload }) => workload],
    ['strategy', ({ strategy }) => strategy],
    ['requests/s', ({ perS }) => ratio(perS)],
    ['TTFT', (run) => ms(figuresOf(run).ttftMs)],
    ['TBT', (run) => ms(figuresOf(run).tbtMs)],
    ['void', verdict],
  ])

const rttTable = (runs: readonly HatRun[]) =>
  tableOf('One device alone at other round-trip times, ms', select(runs, { measured: 'rtt' }), [
    ['RTT', ({ rttMs }) => String(rttMs)],
    ['prompts', ({ workload }) => workload],
    ['strategy', ({ strategy }) => strategy],
    ['TTFT', (run) => ms(figuresOf(run).ttftMs)],
    ['TBT', (run) => ms(figuresOf(run).tbtMs)],
  ])
