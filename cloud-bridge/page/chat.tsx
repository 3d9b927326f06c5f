import { useEffect, useRef, useState } from 'preact/hooks'
import type { AnswerMode } from '../../core/kit/base/answer-modes.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'
import { bytes } from '../commands/figures.ts'
import { AnswerTrace, ShownAnswer } from './answer-trace.tsx'
import type { ChatModel } from './chat-model.ts'
import { useModel } from './model.ts'
import { dollars, duration, Notice, Select } from './parts.tsx'
import type { Turn } from './turn.ts'

/** What each mode means, in a line; docs/dispatch.md and docs/sketches.md have the rest. */
const meanings: Readonly<Record<AnswerMode | '', string>> = {
  '': 'as the server is configured',
  private: 'HAT: no text leaves the device',
  local: 'the small model alone',
  cloud: 'the server alone, which sees the question',
  cheap: 'what costs less',
  fast: 'both at once',
  auto: 'whichever is better now',
  sketch: 'devices expand the sketch of the bridge',
  full: 'the model of the bridge alone',
}

/** How near its end the conversation is followed. */
const followPx = 400

export function ChatPage({ chat }: { readonly chat: ChatModel }) {
  useModel(chat, 50)
  const turns = useRef<HTMLDivElement>(null)
  useEffect(() => void chat.readModes(), [chat])
  const wasShown = useRef(false)
  useEffect(() => {
    const main = turns.current!.closest('main')!
    const isNear = main.scrollHeight - main.scrollTop - main.clientHeight < followPx
    // A reader who has gone back stays there.
    if (isNear || !wasShown.current) main.scrollTo(0, main.scrollHeight)
    wasShown.current = true
  }, [chat.turns])
  return (
    <section class="page chat">
      <h1 class="sr">Chat</h1>
      <Notice text={chat.problem} isProblem />
      <div class="turns" aria-live="polite" aria-busy={chat.isAnswering} ref={turns}>
        {chat.turns.length === 0 && (
          <p class="dim">
            Ask {chat.card?.id ?? 'the model'} something. The conversation is in this tab alone; what the server sees depends on
            the mode.
          </p>
        )}
        {chat.turns.map((turn, at) => (
          <TurnCard turn={turn} key={at} />
        ))}
      </div>
      <Ask chat={chat} />
    </section>
  )
}

/** A question, its answer, and how that was made. */
export function TurnCard({ turn, isOpen = false }: { readonly turn: Turn; readonly isOpen?: boolean }) {
  return (
    <article class="card">
      <p class="question">{turn.question}</p>
      <ShownAnswer turn={turn} />
      <Notice text={turn.notice} />
      <Notice text={turn.error} isProblem />
      <p class="figures">{visibleLine(figuresOf(turn).join(' · '))}</p>
      <details open={isOpen}>
        <summary>How it was made</summary>
        <AnswerTrace turn={turn} />
      </details>
    </article>
  )
}

/** In a line: what a reader wants to know of an answer. */
function figuresOf({ state, report, usage, mode, endMs, pieces }: Turn): string[] {
  if (state === 'asked') return [pieces.length === 0 ? 'waiting for the first token …' : 'answering …']
  if (!report) return [state]
  const { ttftMs, tbtMs, acceptLength, bytesUp, bytesDown, sources, disco, reusedTokens, fallback } = report
  const cost = disco ? (disco.cost.device.dollars ?? 0) + (disco.cost.server.dollars ?? 0) : 0
  return [
    mode || 'default mode',
    ...new Set(sources.map(({ device, source, model }) => `${device ?? source}: ${model}`)),
    `${usage?.completion_tokens ?? pieces.length} tokens`,
    `first after ${duration(ttftMs)}`,
    tbtMs.p50 === null ? '' : `then each ${duration(tbtMs.p50)}`,
    `in all ${duration(endMs)}`,
    acceptLength === null ? '' : `accept length ${acceptLength.toFixed(2)}`,
    bytesUp + bytesDown === 0 ? '' : `${bytes(bytesUp)} up, ${bytes(bytesDown)} down`,
    reusedTokens === 0 ? '' : `${reusedTokens} positions reused`,
    cost === 0 ? '' : dollars(cost),
    fallback ? `continued because: ${fallback.message}` : '',
  ].filter(Boolean)
}

function Ask({ chat }: { readonly chat: ChatModel }) {
  const [question, setQuestion] = useState('')
  const { mode, maxTokens, tokensPerS } = chat.settings
  function send(event: Event) {
    event.preventDefault()
    const text = question.trim()
    if (text === '' || chat.isAnswering) return
    setQuestion('')
    void chat.ask(text)
  }
  return (
    <form class="ask" onSubmit={send}>
      <div class="bar">
        <textarea
          class="grow"
          aria-label="Question"
          rows={2}
          value={question}
          placeholder="Question – Enter sends, Shift+Enter begins a line, Esc stops"
          onInput={({ currentTarget }) => setQuestion(currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') chat.stop()
            if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send(event)
          }}
        />
        {chat.isAnswering ? (
          <button type="button" onClick={() => chat.stop()}>
            Stop
          </button>
        ) : (
          <button type="submit" class="main">
            Ask
          </button>
        )}
      </div>
      <div class="bar">
        <Select
          label="Mode"
          names={['', ...(chat.card?.brim.modes ?? [])]}
          empty="default"
          value={mode}
          choose={(name) => chat.choose({ mode: name })}
        />
        <span class="dim grow">{meanings[mode]}</span>
        <NumberField label="Max tokens" value={maxTokens} onValue={(value = 256) => chat.choose({ maxTokens: value })} />
        <NumberField label="Reading, tokens/s" value={tokensPerS} onValue={(value) => chat.choose({ tokensPerS: value })} />
        <button type="button" disabled={chat.turns.length === 0} onClick={() => chat.clear()}>
          New
        </button>
      </div>
    </form>
  )
}

interface NumberProps {
  readonly label: string
  readonly value: number | undefined
  onValue(value: number | undefined): void
}

const NumberField = ({ label, value = Number.NaN, onValue }: NumberProps) => (
  <label>
    {label}{' '}
    <input
      type="number"
      min={0}
      step="any"
      value={Number.isNaN(value) ? '' : value}
      onInput={({ currentTarget: { value } }) => onValue(value === '' ? undefined : Number(value))}
    />
  </label>
)
