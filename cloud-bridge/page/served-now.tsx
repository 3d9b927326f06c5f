import { useState } from 'preact/hooks'
import type { HatSession, ServedAnswer, ServedNow } from '../../core/wire/protocol/http/served-now.ts'
import { bytes, compact } from '../commands/figures.ts'
import { useFollowed, useSession } from './model.ts'
import { duration, Notice, Stale, Table } from './parts.tsx'

/** What the bridge serves now, to all clients: answers, which are TokenFlow's streams, and HAT sessions of devices. */
export function ServedNowView() {
  const { api } = useSession()
  const [now, setNow] = useState<ServedNow>()
  const problem = useFollowed(async (signal, onOpen) => {
    for await (const next of api.events<ServedNow>('/v1/served', signal, onOpen)) setNow(next)
    return false
  }, [])
  return (
    <>
      <h2>Served now</h2>
      <Stale problem={problem} />
      {now && <Answers {...now} />}
      {now && <Sessions {...now} />}
    </>
  )
}

function Answers({ answers, moreAnswers }: ServedNow) {
  const mostUnread = Math.max(...answers.map(({ unreadTokens }) => unreadTokens ?? 0), 1)
  if (answers.length === 0) return <Notice text="no answer waits or is generated" />
  return (
    <>
      <Table
        label="Answers that wait or are generated"
        head={['Answer to client', 'State', 'Tokens', 'Unread', ...streamHead]}
        rows={answers.map((answer) => [
          answer.client,
          <State of={answer} />,
          compact(answer.generatedTokens),
          <>
            {compact(answer.unreadTokens)}
            <span class="meter">
              <span style={{ width: `${(100 * (answer.unreadTokens ?? 0)) / mostUnread}%` }} />
            </span>
          </>,
          ...streamCells(answer),
        ])}
      />
      <More count={moreAnswers} />
    </>
  )
}

function Sessions({ sessions, moreSessions }: ServedNow) {
  if (sessions.length === 0) return <Notice text="no HAT session is open" />
  return (
    <>
      <Table
        label="HAT sessions"
        head={['HAT session of', 'State', 'Rounds', 'Accepted', 'Bytes', 'Round trip', ...streamHead]}
        rows={sessions.map((session) => [
          <a href={`#/device/${session.device}`}>{session.device}</a>,
          <State of={session} />,
          session.rounds,
          `${session.accepted} of ${session.drafted}`,
          `↑ ${bytes(session.bytesUp)} ↓ ${bytes(session.bytesDown)}`,
          duration(session.rttMs),
          ...streamCells(session),
        ])}
      />
      <More count={moreSessions} />
    </>
  )
}

const More = ({ count }: { readonly count: number }) => <Notice text={count > 0 ? `and ${count} more, which began later` : ''} />

type Stream = HatSession | ServedAnswer

const moods: Readonly<Record<string, string>> = { running: 'good', preempted: 'warn' }
const State = ({ of: { state } }: { readonly of: Stream }) => <span class={`dot ${moods[state] ?? 'quiet'}`}>{state}</span>

const streamHead = ['Reader', 'Preempted', 'Context', 'Fast KV', 'Slow KV']

const streamCells = ({ tokensPerS, preemptions, resumptions, contextTokens, fastKvBytes, slowKvBytes }: Stream) => [
  tokensPerS === null ? '–' : `${compact(tokensPerS)}/s`,
  preemptions === 0 ? 'never' : `${preemptions} ×, resumed ${resumptions} ×`,
  `${compact(contextTokens)} tokens`,
  bytes(fastKvBytes),
  bytes(slowKvBytes),
]
