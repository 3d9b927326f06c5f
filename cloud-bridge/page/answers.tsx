import type { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { JobDetails, JobSummary, StoredJobEvent } from '../../core/wire/protocol/http/jobs.ts'
import type { ExpandInput } from '../../core/wire/protocol/jobs.ts'
import { bytes } from '../commands/figures.ts'
import { AnswerTrace, colourClasses, ShownAnswer } from './answer-trace.tsx'
import type { PageApi } from './api.ts'
import { Chart } from './chart.tsx'
import { figuresOf } from './chat.tsx'
import type { ChatModel } from './chat-model.ts'
import { type MetricsModel, totalOf } from './metrics.ts'
import { useModel, usePolled, useTask } from './model.ts'
import { Facts, Notice, Stale } from './parts.tsx'
import type { ChartData } from './telemetry-series.ts'

interface Props {
  readonly api: PageApi
  readonly chat: ChatModel
  /** Of a bridge. */
  readonly metrics: MetricsModel | undefined
  readonly isOperator: boolean
}

/** Answers while they are made: what the bridge serves, what devices expand, and those asked in this tab. */
export function AnswersPage({ api, chat, metrics, isOperator }: Props) {
  useModel(chat, 100)
  return (
    <section class="page">
      <h1>Answers as they happen</h1>
      {metrics && <Serving api={api} metrics={metrics} />}
      {metrics && isOperator && <Expansions api={api} />}
      <h2>Asked in this tab</h2>
      {chat.turns.length === 0 && (
        <Notice text="none yet: ask something under Chat, and see here when its tokens come, what was drafted, who wrote what, and what it cost" />
      )}
      {chat.turns.toReversed().map((turn, at) => (
        <article class="card" key={chat.turns.length - at}>
          <p class="question">{turn.question}</p>
          <ShownAnswer turn={turn} />
          <p class="figures">{figuresOf(turn).join(' · ')}</p>
          <AnswerTrace turn={turn} />
        </article>
      ))}
    </section>
  )
}

/** The bridge's streams, KV by tier, preemptions and steps (TokenFlow). */
function Serving({ api, metrics }: { readonly api: PageApi; readonly metrics: MetricsModel }) {
  useModel(metrics, 200)
  useTask((signal) => metrics.follow(signal), [metrics])
  const { value } = usePolled((signal) => api.get<{ steps: LoggedStep[] }>('/v1/steps', signal), 2_000, [])
  const steps = value?.steps ?? []
  const { latest, samples, problem } = metrics
  const times = samples.map(({ atS }) => atS)
  const mega = (name: string) => metrics.valuesOf(name).map((value) => value / 2 ** 20)
  const chart = (title: string, unit: string, lines: Readonly<Record<string, ChartData['lines'][number]['values']>>) => (
    <Chart title={title} unit={unit} times={times} lines={Object.entries(lines).map(([label, values]) => ({ label, values }))} />
  )
  const of = (name: string) => totalOf(latest, name)
  return (
    <>
      <h2>The bridge</h2>
      <Stale problem={problem} />
      <Facts
        of={{
          Running: String(of('brim_num_requests_running')),
          Waiting: String(of('brim_num_requests_waiting')),
          'HAT sessions': String(of('brim_hat_sessions')),
          'Fast KV': `${bytes(of('brim_kv_cache_bytes'))} of ${bytes(of('brim_kv_cache_budget_bytes'))}`,
          'Slow KV': `${bytes(of('brim_slow_kv_bytes'))} of ${bytes(of('brim_slow_kv_budget_bytes'))}`,
          Preempted: `${of('brim_num_preemptions_total')}; ${bytes(of('brim_kv_saved_bytes_total'))} saved, ${bytes(of('brim_kv_loaded_bytes_total'))} loaded again`,
          'Reader stalls': `${of('brim_reader_stalls_total')}, ${of('brim_reader_stall_seconds_total').toFixed(1)} s`,
        }}
      />
      <div class="charts">
        {chart('Answers', '', {
          waiting: metrics.valuesOf('brim_num_requests_waiting'),
          running: metrics.valuesOf('brim_num_requests_running'),
          'HAT sessions': metrics.valuesOf('brim_hat_sessions'),
        })}
        {chart('Tokens', 'per s', {
          generated: metrics.ratesOf('brim_generation_tokens_total'),
          'read in time': metrics.ratesOf('brim_effective_tokens_total'),
        })}
        {chart('KV by tier', 'MiB', {
          'fast: streams': mega('brim_kv_cache_bytes{holder="streams"}'),
          'fast: cached': mega('brim_kv_cache_bytes{holder="prefixes"}'),
          slow: mega('brim_slow_kv_bytes'),
        })}
        {chart('Preemption', 'per s', {
          preempted: metrics.ratesOf('brim_num_preemptions_total'),
          'reader stalls': metrics.ratesOf('brim_reader_stalls_total'),
        })}
        {steps.length > 1 && <Steps steps={steps} />}
      </div>
    </>
  )
}

/** Drawn over the number of steps: idle time between them would hide them. */
function Steps({ steps }: { readonly steps: readonly LoggedStep[] }) {
  const [width, height] = [320, 132]
  const shown = steps.slice(-width / 4)
  const most = Math.max(...shown.map(({ computeMs }) => computeMs), 1)
  const rows = shown.reduce((sum, { tokens }) => sum + tokens, 0)
  const text = `${shown.length} latest steps: ${rows} rows, at most ${Math.max(...shown.map(({ items }) => items))} streams at once, at most ${most.toFixed(1)} ms`
  return (
    <figure class="chart">
      <figcaption>
        <strong>Steps</strong> <span class="dim">ms; dark: more streams</span>
        <p class="dim">{text}</p>
      </figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={text}>
        {shown.map(({ index, computeMs, items }, at) => (
          <line
            x1={at * 4 + 2}
            x2={at * 4 + 2}
            y1={height}
            y2={height - (computeMs / most) * (height - 8)}
            class="bar line-0"
            style={{ opacity: Math.min(1, 0.3 + items * 0.2) }}
            key={index}
          />
        ))}
      </svg>
    </figure>
  )
}

interface ShownExpansion {
  readonly id: string
  readonly device: string | null
  readonly isRunning: boolean
  readonly lines: readonly { readonly line: string; readonly text: string | undefined; readonly writer: string | undefined }[]
}

const shownExpansions = 4

/** Sketches whose lines grow on devices (PICE): those that are expanded now, and the last few. */
function Expansions({ api }: { readonly api: PageApi }) {
  const { value: shown = [] } = usePolled(
    async (signal) => {
      const { jobs } = await api.get<{ jobs: JobSummary[] }>(`/v1/jobs?kind=pice.expand&limit=${shownExpansions}`, signal)
      return Promise.all(jobs.map((job) => expansionOf(api, job, signal)))
    },
    1_000,
    [],
  )
  if (shown.length === 0) return null
  const classOf = colourClasses(shown.flatMap(({ lines }) => lines.map(({ writer }) => writer)))
  return (
    <>
      <h2>Sketches on devices</h2>
      <div class="expansions">
        {shown.map(({ id, device, isRunning, lines }) => (
          <article class="card" key={id}>
            <h3>
              <a href={`#/job/${id}`}>{id}</a>{' '}
              <span class="dim">{isRunning ? `at ${device ?? 'no device yet'}` : 'complete'}</span>
            </h3>
            <ol class="sketch">
              {lines.map(({ line, text, writer }, at) => (
                <li class={text === undefined ? '' : `by ${classOf(writer)}`} title={writer} key={at}>
                  {text ?? line}
                </li>
              ))}
            </ol>
          </article>
        ))}
      </div>
    </>
  )
}

type Sentence = { readonly sketch: number; readonly sentence: number; readonly text: string }

async function expansionOf(api: PageApi, { id, device, state }: JobSummary, signal: AbortSignal): Promise<ShownExpansion> {
  const path = `/v1/jobs/${encodeURIComponent(id)}`
  const [{ input }, { events }] = await Promise.all([
    api.get<JobDetails>(path, signal),
    api.get<{ events: StoredJobEvent[] }>(`${path}/events`, signal),
  ])
  const written = new Map<string, { readonly text: string; readonly device: string | null }>()
  for (const { data, device } of events) {
    if (typeof data !== 'object' || data === null || !('sentence' in data)) continue
    const { sketch, sentence, text } = data as Sentence
    written.set(`${sketch}/${sentence}`, { text, device })
  }
  const lines = (input as ExpandInput).sketches.flatMap(({ sketch, sentences }, at) =>
    (sentences ?? sketch.map((_, sentence) => sentence)).map((sentence) => {
      const found = written.get(`${at}/${sentence}`)
      return { line: sketch[sentence]!, text: found?.text, writer: found?.device ?? undefined }
    }),
  )
  return { id, device, isRunning: !['SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'REJECTED'].includes(state), lines }
}
