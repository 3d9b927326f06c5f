import { useRef, useState } from 'preact/hooks'
import type { z } from 'zod'
import type { EndEvent, JobDetails, JobSummary, StoredJobEvent } from '../../core/wire/protocol/http/jobs.ts'
import { age } from '../commands/figures.ts'
import { useFollowed, usePolled, useSession } from './model.ts'
import { Actions, clockTime, Facts, Notice, Select, Stale, StillReading, Table } from './parts.tsx'

const listed = 500
const choices = { all: '', queued: '&state=QUEUED', running: '&state=RUNNING', succeeded: '&state=SUCCEEDED', dead: '&dead=true' }

export function JobsPage() {
  const { api } = useSession()
  const [choice, choose] = useState<keyof typeof choices>('all')
  const path = `/v1/jobs?limit=${listed}${choices[choice]}`
  const { value, problem } = usePolled((signal) => api.get<{ jobs: JobSummary[] }>(path, signal), 3_000, [path])
  return (
    <section class="page">
      <h1>Jobs</h1>
      <Select
        label="Show"
        names={Object.keys(choices) as (keyof typeof choices)[]}
        value={choice}
        choose={(name) => choose(name)}
      />
      <Stale problem={problem} />
      {value && <JobTable jobs={value.jobs} />}
    </section>
  )
}

const moods: Readonly<Record<string, string>> = { SUCCEEDED: 'good', FAILED: 'bad', REJECTED: 'bad', TIMED_OUT: 'bad' }
export const jobHasEnded = ({ state }: Pick<JobSummary, 'state'>) => state in moods || state === 'CANCELED'

const State = ({ state }: { readonly state: string }) => (
  <span class={`dot ${moods[state] ?? 'quiet'}`}>{state.toLowerCase().replace('_', ' ')}</span>
)

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
        `${age((Date.now() - Date.parse(submittedAt)) / 1_000)} ago`,
        error ? `${error.code}: ${error.message}` : '',
      ])}
    />
  )
}

type Details = JobDetails & { readonly waitsFor?: string | null }
type JobEvent = StoredJobEvent | z.infer<typeof EndEvent>

/** One job with its events as they come: each once, also where the bridge was restarted meanwhile. */
export function JobPage({ id }: { readonly id: string }) {
  const { api } = useSession()
  const [job, setJob] = useState<Details>()
  const [events, setEvents] = useState<readonly StoredJobEvent[]>([])
  const seq = useRef(0)
  const path = `/v1/jobs/${encodeURIComponent(id)}`
  const problem = useFollowed(
    async (signal, onOpen) => {
      setJob(await api.get<Details>(path, signal))
      for await (const event of api.events<JobEvent>(`${path}/events?after=${seq.current}`, signal, onOpen)) {
        if (!('seq' in event)) {
          setJob(event.job)
          return true
        }
        seq.current = event.seq
        setEvents((before) => [...before, event])
        if (event.type !== 'progress') setJob(await api.get<Details>(path, signal))
      }
      return false
    },
    [path],
  )
  if (!job) return <StillReading what={`job ${id}`} problem={problem} />
  const { kind, state, attempt, devices, boundTo, priority, finishedAt, retryOf, failures, error } = job
  const retry = async () => {
    location.hash = `#/job/${(await api.post<{ id: string }>(`${path}/retry`)).id}`
  }
  return (
    <section class="page">
      <a href="#/jobs">← Jobs</a>
      <h1>{id}</h1>
      <Stale problem={problem} />
      <Notice text={error ? `${error.code}: ${error.message}` : ''} isProblem />
      <Notice text={job.waitsFor ? `waits: ${job.waitsFor}` : ''} />
      <Facts
        of={{
          Kind: kind,
          State: <State state={state} />,
          Attempt: String(attempt),
          Devices: devices.join(', ') || (boundTo === null ? 'none yet' : `for ${boundTo}`),
          'Failed attempts': failuresText(failures) || 'none',
          Priority: String(priority),
          Submitted: clockTime(job.submittedAt),
          Ended: finishedAt && clockTime(finishedAt),
          Deadline: !jobHasEnded(job) && clockTime(job.deadlineAt),
          Repeats: retryOf && <a href={`#/job/${retryOf}`}>{retryOf}</a>,
        }}
      />
      <Actions
        of={[
          !jobHasEnded(job) && {
            text: 'Cancel',
            confirm: 'Cancel this job',
            audit: 'job.cancel',
            run: () => api.post(`${path}/cancel`),
          },
          jobHasEnded(job) && { text: 'Submit again', audit: 'job.retry', run: retry },
        ]}
      />
      <h2>Events</h2>
      <ol class="log" aria-label="Events of the job">
        {events.map(({ seq, at, attempt, device, type, data }) => (
          <li key={seq}>
            <time>{clockTime(at)}</time> {seq} {type} <span class="dim">attempt {attempt}</span> {device} {dataText(data)}
          </li>
        ))}
      </ol>
      <h2>Input and result</h2>
      <pre>{JSON.stringify(job.input, null, 2)}</pre>
      {job.result !== null && <pre>{JSON.stringify(job.result, null, 2)}</pre>}
    </section>
  )
}

const shownChars = 400

function dataText(data: unknown): string {
  const text = JSON.stringify(data)
  return text === '{}' || text === 'null' ? '' : text.slice(0, shownChars)
}
