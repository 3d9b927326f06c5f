import type { JobDetails, JobSummary, StoredJobEvent } from '../../core/wire/protocol/http/jobs.ts'
import type { ExpandInput } from '../../core/wire/protocol/jobs.ts'
import { bytes } from '../commands/figures.ts'
import { colourClasses } from './answer-trace.tsx'
import type { PageApi } from './api.ts'
import { Chart } from './chart.tsx'
import { TurnCard } from './chat.tsx'
import type { ChatModel } from './chat-model.ts'
import { jobHasEnded } from './jobs.tsx'
import { type MetricsModel, totalOf } from './metrics.ts'
import { useModel, usePolled, useSession, useTask } from './model.ts'
import { Facts, Notice, Stale } from './parts.tsx'
import { Replay } from './replay.tsx'
import type { ReplayModel } from './replay-model.ts'
import { ServedNowView } from './served-now.tsx'
import type { ChartData } from './telemetry-series.ts'

interface Props {
  readonly chat: ChatModel
  readonly replay: ReplayModel
  /** Of a bridge. */
  readonly metrics: MetricsModel | undefined
}

/** Answers while they are made: those asked in this tab, recorded ones, what devices expand, what the bridge serves. */
export function AnswersPage({ chat, replay, metrics }: Props) {
  useModel(chat)
  const { isOperator } = useSession()
  return (
    <section class="page">
      <h1>Answers as they happen</h1>
      <h2>Asked in this tab</h2>
      <Notice text={chat.turns.length === 0 ? 'none yet: ask under Chat, and see here how the answer is made' : ''} />
      {chat.turns.toReversed().map((turn, at) => (
        <TurnCard turn={turn} isOpen key={chat.turns.length - at} />
      ))}
      <Replay replay={replay} />
      {metrics && isOperator && <ServedNowView />}
      {metrics && isOperator && <Expansions />}
      {metrics && <Serving metrics={metrics} />}
    </section>
  )
}

/** The bridge's streams, KV by tier, and preemptions (TokenFlow). */
function Serving({ metrics }: { readonly metrics: MetricsModel }) {
  useModel(metrics)
  useTask((signal) => metrics.follow(signal), [metrics])
  const { latest, samples, problem } = metrics
  const of = (name: string) => totalOf(latest, name)
  const mega = (name: string) => metrics.valuesOf(name).map((value) => value / 2 ** 20)
  type Lines = Readonly<Record<string, ChartData['lines'][number]['values']>>
  const chart = (title: string, unit: string, lines: Lines) => {
    const all = Object.entries(lines).map(([label, values]) => ({ label, values }))
    return <Chart title={title} unit={unit} times={samples.map(({ atS }) => atS)} lines={all} />
  }
  return (
    <>
      <h2>The bridge</h2>
      <Stale problem={problem} />
      <Facts
        of={{
          'Fast KV': `${bytes(of('brim_kv_cache_bytes'))} of ${bytes(of('brim_kv_cache_budget_bytes'))}`,
          'Slow KV': `${bytes(of('brim_slow_kv_bytes'))} of ${bytes(of('brim_slow_kv_budget_bytes'))}`,
          Preempted: String(of('brim_num_preemptions_total')),
          'KV saved': bytes(of('brim_kv_saved_bytes_total')),
          'Loaded again': bytes(of('brim_kv_loaded_bytes_total')),
          'Reader stalls': `${of('brim_reader_stalls_total')}, ${of('brim_reader_stall_seconds_total').toFixed(1)} s`,
        }}
      />
      {samples.length < 2 ? (
        <Notice text="two readings make a line" />
      ) : (
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
          {chart('Steps', 'per s', {
            steps: metrics.ratesOf('brim_step_duration_seconds_count'),
            rows: metrics.ratesOf('brim_step_rows_sum'),
          })}
        </div>
      )}
    </>
  )
}

const shownExpansions = 4

/** Sketches whose lines grow on devices (PICE): those that are expanded now, and the last few. */
function Expansions() {
  const { api } = useSession()
  const { value = [] } = usePolled(
    async (signal) => {
      const { jobs } = await api.get<{ jobs: JobSummary[] }>(`/v1/jobs?kind=pice.expand&limit=${shownExpansions}`, signal)
      return Promise.all(jobs.map(async (job) => ({ ...job, lines: await linesOf(api, job.id, signal) })))
    },
    1_000,
    [],
  )
  if (value.length === 0) return null
  const classOf = colourClasses(value.flatMap(({ lines }) => lines.map(({ writer }) => writer)))
  return (
    <>
      <h2>Sketches on devices</h2>
      <div class="charts">
        {value.map((job) => (
          <article class="card" key={job.id}>
            <h3>
              <a href={`#/job/${job.id}`}>{job.id}</a>{' '}
              <span class="dim">{jobHasEnded(job) ? 'complete' : `at ${job.device ?? 'no device yet'}`}</span>
            </h3>
            <ol class="sketch">
              {job.lines.map(({ text, isWritten, writer }, at) => (
                <li class={isWritten ? `by ${classOf(writer)}` : ''} title={writer} key={at}>
                  {text}
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

/** The lines of the sketches of a job, each with the sentence and its device in its place once that is written. */
async function linesOf(api: PageApi, job: string, signal: AbortSignal) {
  const path = `/v1/jobs/${encodeURIComponent(job)}`
  const { input } = await api.get<JobDetails>(path, signal)
  const { events } = await api.get<{ events: StoredJobEvent[] }>(`${path}/events`, signal)
  const written = new Map<string, { readonly text: string; readonly device: string | null }>()
  for (const { data, device } of events)
    if (typeof data === 'object' && data !== null && 'sentence' in data) {
      const { sketch, sentence, text } = data as Sentence
      written.set(`${sketch}/${sentence}`, { text, device })
    }
  return (input as ExpandInput).sketches.flatMap(({ sketch, sentences }, at) =>
    (sentences ?? [...sketch.keys()]).map((sentence) => {
      const found = written.get(`${at}/${sentence}`)
      return { text: found?.text ?? sketch[sentence], isWritten: found !== undefined, writer: found?.device ?? undefined }
    }),
  )
}
