import { median, quantile } from '../../../core/base/statistics.ts'
import type { Format } from '../../../core/model/manifest.ts'
import { type BarPanel, type LinePanel, renderFigure } from '../../plot/plot.ts'
import type { BenchDocument } from '../frame.ts'
import type { EngineRun } from './bench.ts'

const styleNames = { 'in-place': 'in place (ours)', copying: 'stock, copying', growing: 'stock, growing' } as const
const formats: readonly Format[] = ['fp32', 'fp16', 'int4']

/** Figure and page of `brim bench engine --save`. */
export function reportEngine(document: BenchDocument, goals: readonly string[][]): { svg: string; markdown: string } {
  const runs = document.runs as readonly EngineRun[]
  return { svg: figure(document, runs), markdown: page(document, runs, goals) }
}

function gains(overCopying: number | null = null, overGrowing: number | null = null): BarPanel['groups'][number]['bars'] {
  return [
    { name: styleNames.copying, value: overCopying ?? Number.NaN },
    { name: styleNames.growing, value: overGrowing ?? Number.NaN },
  ]
}

/** Tokens per second of the median sample. */
const speedOf = (run: EngineRun) => (1000 * run.tokens) / median(run.samplesMs)

function figure({ conditions, summary }: BenchDocument, runs: readonly EngineRun[]): string {
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
    // fp16 computes as fp32 does.
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
  return renderFigure({
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
  })
}

function page({ conditions }: BenchDocument, runs: readonly EngineRun[], goals: readonly string[][]): string {
  const row = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`
  const table = (head: readonly string[], rows: readonly (readonly (string | number)[])[]) =>
    [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')
  const ms = (run: EngineRun, q: number) => quantile(run.samplesMs, q).toFixed(2)
  const samples = runs
    .filter(({ measured }) => measured !== 'build')
    .map((run) => [
      run.model,
      run.measured,
      run.format,
      styleNames[run.style],
      run.context,
      speedOf(run).toFixed(run.measured === 'prefill' ? 0 : 1),
      ms(run, 0.5),
      ms(run, 0.95),
      ms(run, 0.99),
      run.samplesMs.length,
    ])
  const load = `${Number(conditions.loadAverageBefore).toFixed(1)} before and ${Number(conditions.loadAverageAfter).toFixed(1)} after`
  return `# The engine

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); every sample
of these ${runs.length} runs is in [engine.json](engine.json).

![Tokens per second against context length](engine.svg)

${table(['figure', 'measured', 'reach', ''], goals)}

## Conditions

${conditions.cpu}, ${conditions.cores} cores, ${conditions.memoryGiB} GiB, ${conditions.platform}; Node ${conditions.node};
ONNX Runtime ${conditions.onnxruntime} on the CPU with ${conditions.threads} threads, spinning off; load average ${load}
(the benchmark's own threads included).

- *small*: a Llama of 25 million parameters, random weights, context 2,048. *qwen2.5-0.5b-shaped*: random weights too.
- *in place*: our engine; past and present KV are the same memory. *stock, copying*: the stock binding
  (onnxruntime-node), which copies every output, on the same graph with KV buffers for the whole context, present
  becoming the next past. *stock, growing*: the same with KV just as long as the context: less to copy, and the harder
  one to beat; both ratios are above. Each in a process of its own, taking turns.
- fp16 is a format on disk, computing is fp32: the stock binding cannot read it and ran the fp32 bundle.
- decode: one token at this context. prefill: a prompt of this length in one step. packed and separate: eight sequences
  with ${(conditions.packed as { context: number }).context} tokens each, one more token for each of them.
- Figures are of medians. The first ${conditions.warmUp} tokens of every turn are not counted.

## Samples

${table(['model', 'measured', 'format', 'style', 'context', 'tokens/s', 'p50 ms', 'p95 ms', 'p99 ms', 'n'], samples)}
`
}
