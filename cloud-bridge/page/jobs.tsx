import { useState } from 'preact/hooks'
import type { z } from 'zod'
import type { EndEvent, JobDetails, JobSummary, StoredJobEvent } from '../../core/wire/protocol/http/jobs.ts'
import { age } from '../commands/figures.ts'
import type { PageApi } from './api.ts'
import { usePolled, useTask } from './model.ts'
import { Action, clockTime, Facts, Notice, Stale, StillReading, Table } from './parts.tsx'

const everyMs = 3_000
const listed = 500
const choices = {
  all: '',
  queued: 'state=QUEUED',
  running: 'state=RUNNING',
  succeeded: 'state=SUCCEEDED',
  dead: 'dead=true',
} as const

export function JobsPage({ api }: { readonly api: PageApi }) {
  const [choice, setChoice] = useState<keyof typeof choices>('all')
  const path = `/v1/jobs?limit=${listed}&${choices[choice]}`
  const { value, problem } = usePolled((signal) => api.get<{ jobs: JobSummary[] }>(path, signal), everyMs, [path])
  const jobs = value?.jobs
  return (
    <section class="page">
      <h1>Jobs</h1>
      <div class="bar">
        <label>
          Show{' '}
          <select value={choice} onChange={({ currentTarget }) => setChoice(currentTarget.value as keyof typeof choices)}>
            {Object.keys(choices).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <span class="dim">{jobs && `${jobs.length}${jobs.length === listed ? ', the latest' : ''}`}</span>
      </div>
      <Stale problem={problem} />
      {jobs && <JobTable jobs={jobs} />}
    </section>
  )
}

const moods: Readonly<Record<string, string>> = {
  SUCCEEDED: 'good',
  FAILED: 'bad',
  REJECTED: 'bad',
  TIMED_OUT: 'bad',
  CANCELED: 'quiet',
}
const State = ({ state }: { readonly state: string }) => (
  <span class={`dot ${moods[state] ?? 'quiet'}`}>{state.toLowerCase().replace('_', ' ')}</span>
)

const since = (iso: string) => age((Date.now() - Date.parse(iso)) / 1_000)
const failuresText = (failures: JobSummary['failures']) =>
  Object.entries(failures)
    .map(([kind, count]) => `${count} × ${kind}`)
    .join(', ')

export function JobTable({ jobs }: { readonly jobs: readonly JobSummary[] }) {
  if (jobs.length === 0) return <Notice text="no jobs" />
  return (
    <Table
      label="Jobs, newest first"
      head={['Job', 'Kind', 'State', 'Device', 'Attempt', 'Failed attempts', 'Submitted', 'Error']}
      rows={jobs.map(({ id, kind, state, device, lastDevice, boundTo, attempt, failures, submittedAt, error }) => [
        <a href={`#/job/${id}`}>{id}</a>,
        kind,
        <State state={state} />,
        device ?? lastDevice ?? (boundTo === null ? '' : `for ${boundTo}`),
        attempt,
        failuresText(failures),
        `${since(submittedAt)} ago`,
        error ? `${error.code}: ${error.message}` : '',
      ])}
    />
  )
}

type Details = JobDetails & { readonly waitsFor: string | null }
const endStates = ['SUCCEEDED', 'FAILED', 'REJECTED', 'TIMED_OUT', 'CANCELED']

/** One job with its events as they come: each once, also where the bridge was restarted meanwhile. */
export function JobPage({ api, id }: { readonly api: PageApi; readonly id: string }) {
  const [job, setJob] = useState<Details>()
  const [events, setEvents] = useState<readonly StoredJobEvent[]>([])
  const [problem, setProblem] = useState<string>()
  const path = `/v1/jobs/${encodeURIComponent(id)}`
  useTask(
    async (signal) => {
      let seq = 0
      setEvents([])
      await api.follow(
        async (onOpen) => {
          setJob(await api.get<Details>(path, signal))
          for await (const event of api.events<StoredJobEvent | z.infer<typeof EndEvent>>(
            `${path}/events?after=${seq}`,
            signal,
            onOpen,
          )) {
            if (isEnd(event)) {
              setJob({ ...event.job, waitsFor: null })
              return true
            }
            seq = event.seq
            setEvents((before) => [...before, event])
            if (event.type !== 'progress') setJob(await api.get<Details>(path, signal))
          }
          return false
        },
        setProblem,
        signal,
      )
    },
    [id],
  )
  if (!job) return <StillReading what={`job ${id}`} problem={problem} />
  const {
    kind,
    state,
    attempt,
    devices,
    boundTo,
    priority,
    submittedAt,
    deadlineAt,
    finishedAt,
    retryOf,
    failures,
    error,
    waitsFor,
  } = job
  const hasEnded = endStates.includes(state)
  return (
    <section class="page">
      <p>
        <a href="#/jobs">← Jobs</a>
      </p>
      <h1>{id}</h1>
      <Stale problem={problem} />
      {error && <Notice text={`${error.code}: ${error.message}`} isProblem />}
      {waitsFor !== null && <Notice text={`waits: ${waitsFor}`} />}
      <Facts
        of={{
          Kind: kind,
          State: <State state={state} />,
          Attempt: String(attempt),
          Devices: devices.join(', ') || (boundTo === null ? 'none yet' : `for ${boundTo}`),
          'Failed attempts': failuresText(failures) || 'none',
          Priority: String(priority),
          Submitted: clockTime(submittedAt),
          Ended: finishedAt && clockTime(finishedAt),
          Deadline: !hasEnded && clockTime(deadlineAt),
          Repeats: retryOf && <a href={`#/job/${retryOf}`}>{retryOf}</a>,
        }}
      />
      <p class="bar">
        <Action
          text="Cancel"
          confirm="Cancel this job"
          audit="job.cancel"
          isAllowed={!hasEnded}
          run={() => api.post(`${path}/cancel`)}
        />
        <Action
          text="Submit again"
          audit="job.retry"
          isAllowed={hasEnded}
          run={async () => {
            location.hash = `#/job/${(await api.post<{ id: string }>(`${path}/retry`)).id}`
          }}
        />
      </p>
      <h2>Events</h2>
      <ol class="log" aria-label="Events of the job">
        {events.map(({ seq, at, attempt, device, type, data }) => (
          <li key={seq}>
            <time>{clockTime(at)}</time> {seq} {type}{' '}
            <span class="dim">{[`attempt ${attempt}`, device].filter(Boolean).join(', ')}</span> {textOfData(data)}
          </li>
        ))}
      </ol>
      <h2>Input and result</h2>
      <pre>{JSON.stringify(job.input, null, 2)}</pre>
      {job.result !== null && <pre>{JSON.stringify(job.result, null, 2)}</pre>}
    </section>
  )
}

const isEnd = (event: StoredJobEvent | z.infer<typeof EndEvent>): event is z.infer<typeof EndEvent> => !('seq' in event)

function textOfData(data: unknown): string {
  if (typeof data !== 'object' || data === null) return ''
  const text = 'text' in data ? String(data.text) : JSON.stringify(data)
  return text === '{}' ? '' : text.slice(0, 400)
}
