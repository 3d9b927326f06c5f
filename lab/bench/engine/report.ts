import type { Format } from '../../../core/model/bundle/manifest.ts'
import { median, quantile } from '../../../core/policy/estimate/quantile.ts'
import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import type { BarPanel, Figure, LinePanel } from '../../plot/plot.ts'

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

/** The figures that have goals, from medians. */
export function summarise(runs: readonly EngineRun[]): Record<string, number> {
  const ms = (wanted: Partial<EngineRun>) => {
    const run = runs.find((each) => Object.entries(wanted).every(([key, value]) => each[key as keyof EngineRun] === value))
    if (!run) throw new Error(`no run for ${JSON.stringify(wanted)}`)
    return median(run.samplesMs)
  }
  const inPlaceOver = (style: Style, format: Format) => {
    const what = { measured: 'decode', model: 'small', format, context: 1024 } as const
    return ms({ ...what, style }) / ms({ ...what, style: 'in-place' })
  }
  const packedOverSeparate = (format: Format) => ms({ measured: 'separate', format }) / ms({ measured: 'packed', format })
  const qwen = 'qwen2.5-0.5b-shaped'
  return {
    inPlaceOverCopyingFp32: inPlaceOver('copying', 'fp32'),
    inPlaceOverCopyingInt4: inPlaceOver('copying', 'int4'),
    inPlaceOverGrowingFp32: inPlaceOver('growing', 'fp32'),
    inPlaceOverGrowingInt4: inPlaceOver('growing', 'int4'),
    packed8OverSeparateInt4: packedOverSeparate('int4'),
    packed8OverSeparateFp32: packedOverSeparate('fp32'),
    qwenDecodeTokensPerS: 1000 / ms({ measured: 'decode', model: qwen }),
    qwenBuildS: ms({ measured: 'build', model: qwen }) / 1000,
  }
}

const styleNames = { 'in-place': 'in place (ours)', copying: 'stock, copying', growing: 'stock, growing' } as const
const formats: readonly Format[] = ['fp32', 'fp16', 'int4']

export const engineReport: BenchReport = {
  title: 'Engine',
  contents: 'every sample',
  figure,
  figureText: 'Tokens per second by context length',
  tables: (document) => [sampleTable(runsOf(document))],
  conditions,
}

const runsOf = ({ runs }: BenchDocument) => runs as readonly EngineRun[]

function gains(overCopying: number | null = null, overGrowing: number | null = null): BarPanel['groups'][number]['bars'] {
  return [
    { name: styleNames.copying, value: overCopying ?? Number.NaN },
    { name: styleNames.growing, value: overGrowing ?? Number.NaN },
  ]
}

/** Tokens per second of the median sample. */
const speedOf = (run: EngineRun) => (1000 * run.tokens) / median(run.samplesMs)

function figure(document: BenchDocument): Figure {
  const { conditions, summary } = document
  const runs = runsOf(document)
  const speed = (measured: 'decode' | 'prefill', format: Format): LinePanel => ({
    kind: 'lines',
    title: `${measured === 'decode' ? 'Decode' : 'Prefill'}, ${format}`,
    xLabel: measured === 'decode' ? 'tokens of context' : 'tokens of prompt',
    yLabel: 'tokens/s',
    series: (['in-place', 'copying', 'growing'] as const).map((style) => ({
      name: styleNames[style],
      points: runs
        .filter((run) => run.model === 'small' && run.measured === measured && run.format === format && run.style === style)
        .map((run) => [run.context, speedOf(run)] as const),
    })),
  })
  const packed: BarPanel = {
    kind: 'bars',
    title: 'Eight sequences, one token each',
    yLabel: 'tokens/s of all eight together',
    groups: (['fp32', 'int4'] as const).map((format) => ({
      label: format,
      bars: (['packed', 'separate'] as const).flatMap((measured) =>
        runs
          .filter((run) => run.measured === measured && run.format === format)
          .map((run) => ({ name: measured === 'packed' ? 'one packed step' : 'eight separate steps', value: speedOf(run) })),
      ),
    })),
  }
  const gain: BarPanel = {
    kind: 'bars',
    title: 'In place over stock, context 1,024',
    yLabel: 'times as fast when decoding',
    // fp16 is left out: it computes in fp32.
    groups: [
      { label: 'fp32', bars: gains(summary.inPlaceOverCopyingFp32, summary.inPlaceOverGrowingFp32) },
      { label: 'int4', bars: gains(summary.inPlaceOverCopyingInt4, summary.inPlaceOverGrowingInt4) },
    ],
  }
  const qwen: BarPanel = {
    kind: 'bars',
    title: 'Qwen2.5-0.5B-shaped, int4',
    yLabel: 'tokens/s',
    groups: runs
      .filter(({ model, measured }) => model !== 'small' && measured !== 'build')
      .map((run) => ({
        label: run.measured === 'decode' ? `decode at ${run.context}` : `prefill of ${run.context}`,
        bars: [{ name: styleNames['in-place'], value: speedOf(run) }],
      })),
  }
  return {
    title: 'The engine: KV in place against copying, packed against separate steps',
    subtitle: `25M-parameter Llama, random weights; medians; ${conditions.threads} threads on ${conditions.cpu}; ONNX Runtime ${conditions.onnxruntime}`,
    columns: 3,
    panels: [
      ...formats.map((format) => speed('decode', format)),
      ...formats.map((format) => speed('prefill', format)),
      gain,
      packed,
      qwen,
    ],
  }
}

function sampleTable(runs: readonly EngineRun[]): Table {
  const ms = (run: EngineRun, q: number) => quantile(run.samplesMs, q).toFixed(2)
  return {
    title: 'Samples',
    head: ['model', 'measured', 'format', 'style', 'context', 'tokens/s', 'p50 ms', 'p95 ms', 'p99 ms', 'n'],
    rows: runs
      .filter(({ measured }) => measured !== 'build')
      .map((run) => [
        ...[run.model, run.measured, run.format, styleNames[run.style], String(run.context)],
        ...[speedOf(run).toFixed(run.measured === 'prefill' ? 0 : 1), ms(run, 0.5), ms(run, 0.95), ms(run, 0.99)],
        String(run.samplesMs.length),
      ]),
  }
}

function conditions(document: BenchDocument): string {
  const { cpu, cores, memoryGiB, platform, node, onnxruntime, threads, packed, warmUp } = document.conditions
  return `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${platform}; Node ${node}; ONNX Runtime ${onnxruntime} on the CPU with
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
- Figures are medians. The first ${warmUp} tokens of every turn are not counted.`
}
