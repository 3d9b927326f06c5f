import type { Format } from '../../../core/model/bundle/manifest.ts'
import { median, quantile } from '../../../core/policy/estimate/quantile.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel, linePanel } from '../../frame/panels.ts'
import { select, type Wanted } from '../../frame/runs.ts'
import type { DocumentOf, FigureTable, ShownRuns } from '../../frame/tabled-bench.ts'
import { tableOf } from '../../frame/tables.ts'

export type Style = 'in-place' | 'copying' | 'growing'

/** The samples of one measurement. */
export interface EngineRun {
  readonly measured: 'decode' | 'prefill' | 'packed' | 'separate' | 'build'
  readonly model: 'small' | 'qwen2.5-0.5b-shaped'
  readonly format: Format
  readonly style: Style
  /** Tokens before the decoded one, or length of the prompt. */
  readonly context: number
  /** Tokens per sample. */
  readonly tokens: number
  readonly samplesMs: number[]
}

type Runs = readonly EngineRun[]

const medianMs = (runs: Runs, wanted: Wanted<EngineRun>) => median(select(runs, wanted)[0]?.samplesMs ?? [])

const decodeMs = (runs: Runs, style: Style, format: Format) =>
  medianMs(runs, { measured: 'decode', model: 'small', context: 1024, style, format })

const inPlaceOver = (style: Style, format: Format) => (runs: Runs) =>
  decodeMs(runs, style, format) / decodeMs(runs, 'in-place', format)

const packedOverSeparate = (format: Format) => (runs: Runs) =>
  medianMs(runs, { measured: 'separate', format }) / medianMs(runs, { measured: 'packed', format })

const qwen = { model: 'qwen2.5-0.5b-shaped' } as const

export const engineFigures: FigureTable<EngineRun> = {
  inPlaceOverCopyingFp32: [inPlaceOver('copying', 'fp32'), { min: 2 }],
  inPlaceOverCopyingInt4: [inPlaceOver('copying', 'int4'), { min: 3 }],
  inPlaceOverGrowingFp32: [inPlaceOver('growing', 'fp32')],
  inPlaceOverGrowingInt4: [inPlaceOver('growing', 'int4')],
  packed8OverSeparateInt4: [packedOverSeparate('int4'), { min: 1.6 }],
  packed8OverSeparateFp32: [packedOverSeparate('fp32'), { min: 3.5 }],
  qwenDecodeTokensPerS: [(runs) => 1000 / medianMs(runs, { ...qwen, measured: 'decode' }), { min: 40 }],
  qwenBuildS: [(runs) => medianMs(runs, { ...qwen, measured: 'build' }) / 1000, { max: 60 }],
}

const styleNames = { 'in-place': 'in place (ours)', copying: 'stock, copying', growing: 'stock, growing' } as const

/** Tokens per second of the median sample. */
const speedOf = (run: EngineRun) => (1000 * run.tokens) / median(run.samplesMs)

export function showEngine(document: DocumentOf<EngineRun>): ShownRuns {
  const { runs, summary, conditions } = document
  const { cpu, cores, memoryGiB, platform, node, onnxruntime, threads, packed, warmUp } = conditions
  const speeds = (measured: 'decode' | 'prefill', title: string, xLabel: string) =>
    (['fp32', 'fp16', 'int4'] as const).map((format) =>
      linePanel(
        `${title}, ${format}`,
        xLabel,
        'tokens/s',
        select(runs, { model: 'small', measured, format }).map((run) => [styleNames[run.style], run.context, speedOf(run)]),
      ),
    )
  const packedBars = (['fp32', 'int4'] as const).flatMap((format) =>
    [
      { measured: 'packed', name: 'one packed step' } as const,
      { measured: 'separate', name: 'eight separate steps' } as const,
    ].flatMap(({ measured, name }) => select(runs, { measured, format }).map((run) => [format, name, speedOf(run)] as const)),
  )
  return {
    figure: {
      title: 'The engine: KV in place against copying, packed against separate steps',
      subtitle: `25M-parameter Llama, random weights; medians; ${threads} threads on ${cpu}; ONNX Runtime ${onnxruntime}`,
      columns: 3,
      panels: [
        ...speeds('decode', 'Decode', 'tokens of context'),
        ...speeds('prefill', 'Prefill', 'tokens of prompt'),
        // fp16 is left out: it computes in fp32.
        barPanel('In place over stock, context 1,024', 'times as fast when decoding', [
          ['fp32', styleNames.copying, summary.inPlaceOverCopyingFp32 ?? null],
          ['fp32', styleNames.growing, summary.inPlaceOverGrowingFp32 ?? null],
          ['int4', styleNames.copying, summary.inPlaceOverCopyingInt4 ?? null],
          ['int4', styleNames.growing, summary.inPlaceOverGrowingInt4 ?? null],
        ]),
        barPanel('Eight sequences, one token each', 'tokens/s of all eight together', packedBars),
        barPanel('Qwen2.5-0.5B-shaped, int4', 'tokens/s', [
          ...select(runs, { ...qwen, measured: 'decode' }).map(
            (run) => [`decode at ${run.context}`, styleNames['in-place'], speedOf(run)] as const,
          ),
          ...select(runs, { ...qwen, measured: 'prefill' }).map(
            (run) => [`prefill of ${run.context}`, styleNames['in-place'], speedOf(run)] as const,
          ),
        ]),
      ],
    },
    tables: [
      tableOf(
        'Samples',
        runs.filter(({ measured }) => measured !== 'build'),
        [
          ['model', ({ model }) => model],
          ['measured', ({ measured }) => measured],
          ['format', ({ format }) => format],
          ['style', ({ style }) => styleNames[style]],
          ['context', ({ context }) => String(context)],
          ['tokens/s', (run) => speedOf(run).toFixed(run.measured === 'prefill' ? 0 : 1)],
          ['p50 ms', ({ samplesMs }) => quantile(samplesMs, 0.5).toFixed(2)],
          ['p95 ms', ({ samplesMs }) => quantile(samplesMs, 0.95).toFixed(2)],
          ['p99 ms', ({ samplesMs }) => quantile(samplesMs, 0.99).toFixed(2)],
          ['n', ({ samplesMs }) => String(samplesMs.length)],
        ],
      ),
    ],
    conditions: `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${platform}; Node ${node}; ONNX Runtime ${onnxruntime} on the CPU with
${threads} threads, spinning off; ${loadText(document)} (the benchmark's own threads included).

- *small* is a Llama of 25 million parameters with random weights and a context of 2,048 tokens. *qwen2.5-0.5b-shaped* has
  random weights too.
- *in place* is our engine: past and present KV are the same memory. *stock, copying* is the stock binding
  (onnxruntime-node), which copies every output, on the same graph with KV buffers for the whole context; present becomes the
  next past. *stock, growing* has KV only as long as the context, which is less to copy and harder to beat. Each style runs in
  a process of its own, in turn.
- fp16 is a format on disk; the computation is fp32. The stock binding cannot read it and ran the fp32 bundle.
- *decode* is one token at this context, *prefill* a prompt of this length in one step. *packed* and *separate* are one token for
  each of eight sequences with ${(packed as { context: number }).context} tokens of context.
- Figures are medians. The first ${warmUp} tokens of every turn are not counted.`,
  }
}
