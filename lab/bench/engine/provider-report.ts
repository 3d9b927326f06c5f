import type { Format } from '../../../core/model/bundle/manifest.ts'
import { median, quantile } from '../../../core/policy/estimate/quantile.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import { select } from '../../frame/runs.ts'
import { sum } from '../../frame/statistics.ts'
import type { DocumentOf, FigureRow, FigureTable, ShownRuns } from '../../frame/tabled-bench.ts'
import { tableOf } from '../../frame/tables.ts'
import type { ExactnessReply } from './exactness-worker.ts'

/** Where a bundle's steps ran, and how they compare: with the CPU, and with steps of one row. */
interface ExactnessRun extends Omit<ExactnessReply, 'onnxruntime'> {
  readonly kind: 'exactness'
  readonly format: Format
  readonly split: boolean
}

/** The samples of one measurement. */
export interface SpeedRun {
  readonly kind: 'speed'
  readonly format: Format
  /** `launch`: a step of a model with as many nodes and hardly any arithmetic. */
  readonly measured: 'prefill' | 'decode' | 'packed' | 'launch'
  readonly context: number
  /** Tokens per sample. */
  readonly tokens: number
  readonly samplesMs: readonly number[]
}

interface MemoryRun {
  readonly kind: 'memory'
  readonly format: Format
  /** Files of weights, and memory of the process beyond what it had before. */
  readonly weightBytes: number
  readonly memoryBytes: number
}

export type ProviderRun = ExactnessRun | SpeedRun | MemoryRun

type Runs = readonly ProviderRun[]

const exactnessOf = (runs: Runs) => runs.filter((run) => run.kind === 'exactness')
const speedsOf = (runs: Runs) => runs.filter((run) => run.kind === 'speed')

/** A sum over all bundles. */
const total = (of: (run: ExactnessRun) => number) => (runs: Runs) => sum(exactnessOf(runs).map(of))

/** A share over all bundles. */
const share = (part: (run: ExactnessRun) => number, whole: (run: ExactnessRun) => number) => (runs: Runs) =>
  total(part)(runs) / total(whole)(runs)

/** Of the median sample. */
const speedOf = (run: SpeedRun) => (1000 * run.tokens) / median(run.samplesMs)

type Measured = Pick<SpeedRun, 'measured'> & Partial<Pick<SpeedRun, 'context' | 'tokens'>>

const speed = (format: Format, measured: Measured) => (runs: Runs) => {
  const [run] = select(speedsOf(runs), { format, ...measured })
  return run && speedOf(run)
}

const speeds: Readonly<Record<string, Measured>> = {
  prefill: { measured: 'prefill' },
  decode128: { measured: 'decode', context: 128 },
  decode1024: { measured: 'decode', context: 1_024 },
  packed8: { measured: 'packed', tokens: 8 },
  packed16: { measured: 'packed', tokens: 16 },
}

const formats = ['fp32', 'int4'] as const
const titled = { fp32: 'Fp32', int4: 'Int4' } as const
const speedFigures: FigureTable<ProviderRun> = Object.fromEntries(
  Object.entries(speeds).flatMap(([name, measured]) =>
    formats.map((format): [string, FigureRow<ProviderRun>] => [`${name}TokensPerS${titled[format]}`, [speed(format, measured)]]),
  ),
)

const memory = (format: Format) => (runs: Runs) => {
  const run = runs.find((each) => each.kind === 'memory' && each.format === format)
  return run?.kind === 'memory' ? run.memoryBytes / run.weightBytes : undefined
}

export const providerFigures: FigureTable<ProviderRun> = {
  nodesOnProvider: [
    share(
      ({ placement }) => placement.nodesOnProvider,
      ({ placement }) => placement.nodes,
    ),
    { min: 1 },
  ],
  copiesPerStep: [
    share(
      ({ placement }) => placement.copies,
      ({ placement }) => placement.steps,
    ),
    { max: 0 },
  ],
  kvOnDevice: [
    share(
      ({ placement }) => placement.kvOnDevice,
      ({ placement }) => placement.kvTensors,
    ),
    { min: 1 },
  ],
  tokensDiffering: [total(({ tokens }) => tokens.tokensDiffering), { max: 0 }],
  tokensNearlyTied: [total(({ tokens }) => tokens.nearTies)],
  rowsDifferingInChunks: [
    share(
      ({ company }) => company.chunks.rowsDiffering,
      ({ company }) => company.chunks.rows,
    ),
  ],
  rowsDifferingPacked: [
    share(
      ({ company }) => company.packed.rowsDiffering,
      ({ company }) => company.packed.rows,
    ),
  ],
  tokensDifferingByCompany: [total(({ company }) => company.chunks.tokensDiffering + company.packed.tokensDiffering)],
  tokensNearlyTiedByCompany: [total(({ company }) => company.chunks.nearTies + company.packed.nearTies)],
  ...speedFigures,
  launchMs: [
    (runs) => {
      const [run] = select(speedsOf(runs), { measured: 'launch' })
      return run && median(run.samplesMs)
    },
  ],
  memoryOverWeightsFp32: [memory('fp32')],
  memoryOverWeightsInt4: [memory('int4')],
}

const bundleName = ({ format, split }: ExactnessRun) => `${format}, ${split ? 'split' : 'whole'}`

export function showProvider(document: DocumentOf<ProviderRun>): ShownRuns {
  const { runs, conditions } = document
  const { cpu, cores, memoryGiB, platform, node, onnxruntime, provider, threads } = conditions
  const measured = speedsOf(runs).filter((run) => run.measured !== 'launch')
  return {
    figure: {
      title: `The engine with ${provider}`,
      subtitle: `random weights; medians; ONNX Runtime ${onnxruntime}, ${cpu}`,
      columns: 2,
      panels: formats.map((format) =>
        barPanel(
          `Tokens per second, ${format}`,
          'tokens/s',
          select(measured, { format }).map(
            (run) => [`${run.measured} ${run.measured === 'packed' ? run.tokens : run.context}`, 'ours', speedOf(run)] as const,
          ),
        ),
      ),
    },
    tables: [
      tableOf('Where steps run, and what they give', exactnessOf(runs), [
        ['bundle', bundleName],
        ['nodes there', ({ placement: { nodes, nodesOnProvider } }) => `${nodesOnProvider} of ${nodes}`],
        ['copies', ({ placement: { copies, steps } }) => `${copies} in ${steps} steps`],
        ['KV there', ({ placement: { kvOnDevice, kvTensors } }) => `${kvOnDevice} of ${kvTensors}`],
        ['tokens unlike the CPU', ({ tokens }) => `${tokens.tokensDiffering} of ${tokens.tokens} (${tokens.nearTies} near ties)`],
      ]),
      tableOf(
        'Rows in company, against steps of one row',
        exactnessOf(runs).flatMap((run) => Object.entries(run.company).map(([way, counts]) => ({ run, way, counts }))),
        [
          ['bundle', ({ run }) => bundleName(run)],
          ['steps', ({ way }) => way],
          ['rows with other bits', ({ counts }) => `${counts.rowsDiffering} of ${counts.rows}`],
          ['other tokens', ({ counts }) => `${counts.tokensDiffering} (${counts.nearTies} near ties)`],
          ['largest difference of logits', ({ counts }) => counts.largestDifference.toExponential(1)],
        ],
      ),
      tableOf('Samples', speedsOf(runs), [
        ['measured', ({ measured: what }) => what],
        ['format', ({ format }) => format],
        ['context', ({ context }) => String(context)],
        ['tokens', ({ tokens }) => String(tokens)],
        ['tokens/s', (run) => speedOf(run).toFixed(1)],
        ['p50 ms', ({ samplesMs }) => quantile(samplesMs, 0.5).toFixed(2)],
        ['p95 ms', ({ samplesMs }) => quantile(samplesMs, 0.95).toFixed(2)],
        ['n', ({ samplesMs }) => String(samplesMs.length)],
      ]),
    ],
    conditions: `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${platform}; Node ${node}; ONNX Runtime ${onnxruntime} with ${provider},
${threads} threads on the CPU; ${loadText(document)}. The weights are random.

- *nodesOnProvider* and *copiesPerStep* are read from ONNX Runtime's profile of every graph, on a runtime in which nodes may fall back
  to the CPU. Token ids, the places of rows, returned rows and logits are not counted as copies.
- *tokensDiffering* are greedy tokens that are not the reference's on the CPU, which has read the same tokens before; near ties
  (docs/glossary.md) are counted beside them. int4 is built with --accuracy 1.
- *rowsDiffering…* are rows that have other bits in chunks, and in packed steps of two streams, than in steps of one row.
- *launchMs* is a step of a model with as many nodes as the measured one and hardly any arithmetic.
- *memoryOverWeights…* is memory of the process. A GPU with memory of its own has the weights there, and they are not in it.`,
  }
}
