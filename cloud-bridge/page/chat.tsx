import { useEffect, useRef, useState } from 'preact/hooks'
import type { AnswerMode } from '../../core/kit/base/answer-modes.ts'
import { bytes } from '../commands/figures.ts'
import { AnswerTrace, ShownAnswer } from './answer-trace.tsx'
import type { ChatModel, Turn } from './chat-model.ts'
import { useModel } from './model.ts'
import { dollars, duration, Notice } from './parts.tsx'

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
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => {
    void chat.readModes()
  }, [chat])
  const pieces = chat.turns.at(-1)?.pieces.length ?? 0
  useEffect(() => {
    const main = end.current?.closest('main')
    // A reader who has gone back stays there.
    if (main && main.scrollHeight - main.scrollTop - main.clientHeight < followPx) main.scrollTo(0, main.scrollHeight)
  }, [chat.turns.length, pieces])
  return (
    <section class="page chat">
      <h1 class="sr">Chat</h1>
      {chat.problem !== undefined && <Notice text={chat.problem} isProblem />}
      {chat.turns.length === 0 && (
        <p class="dim">
          Ask {chat.card?.id ?? 'the model'} something. The conversation is in this tab alone; what the server sees depends on the
          mode.
        </p>
      )}
      <div class="turns" aria-live="polite" aria-busy={chat.isAnswering}>
        {chat.turns.map((turn, at) => (
          <ShownTurn turn={turn} key={at} />
        ))}
        <div ref={end} />
      </div>
      <Ask chat={chat} />
    </section>
  )
}

function ShownTurn({ turn }: { readonly turn: Turn }) {
  const { question, state, error, notice } = turn
  return (
    <article class="turn">
      <p class="question">{question}</p>
      <ShownAnswer turn={turn} />
      {notice !== undefined && <Notice text={notice} />}
      {state === 'failed' && <Notice text={error ?? 'failed'} isProblem />}
      <p class="figures">{figuresOf(turn).join(' · ')}</p>
      {turn.pieces.length > 0 && (
        <details>
          <summary>How it was made</summary>
          <AnswerTrace turn={turn} />
        </details>
      )}
    </article>
  )
}

/** In a line: what a reader wants to know of an answer. */
export function figuresOf({ state, report, usage, mode, endMs, pieces }: Turn): string[] {
  if (state === 'stopped') return ['stopped']
  if (!report) return state === 'asked' ? [pieces.length === 0 ? 'waiting for the first token …' : 'answering …'] : []
  const { ttftMs, tbtMs, acceptLength, bytesUp, bytesDown, sources, disco, reusedTokens, fallback } = report
  const writers = [...new Set(sources.map(({ device, source, model }) => `${device ?? source}: ${model}`))]
  const cost = disco ? (disco.cost.device.dollars ?? 0) + (disco.cost.server.dollars ?? 0) : 0
  return [
    mode || 'default mode',
    ...writers,
    `${usage?.completion_tokens ?? pieces.length} tokens`,
    `first after ${duration(ttftMs)}`,
    ...(tbtMs.p50 === null ? [] : [`then each ${duration(tbtMs.p50)}`]),
    `in all ${duration(endMs)}`,
    ...(acceptLength === null ? [] : [`accept length ${acceptLength.toFixed(2)}`]),
    ...(bytesUp + bytesDown === 0 ? [] : [`${bytes(bytesUp)} up, ${bytes(bytesDown)} down`]),
    ...(reusedTokens === 0 ? [] : [`${reusedTokens} positions reused`]),
    ...(cost === 0 ? [] : [dollars(cost)]),
    ...(fallback ? [`continued because: ${fallback.message}`] : []),
  ]
}

function Ask({ chat }: { readonly chat: ChatModel }) {
  const [question, setQuestion] = useState('')
  const { mode, maxTokens, tokensPerS } = chat.settings
  function send() {
    const text = question.trim()
    if (text === '' || chat.isAnswering) return
    setQuestion('')
    void chat.ask(text)
  }
  const numberOf = (text: string) => (text === '' ? undefined : Number(text))
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <textarea
        aria-label="Question"
        rows={2}
        value={question}
        placeholder="Question – Enter sends, Shift+Enter begins a line, Esc stops"
        onInput={({ currentTarget }) => setQuestion(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') chat.stop()
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
          event.preventDefault()
          send()
        }}
      />
      <div class="bar">
        <label>
          Mode{' '}
          <select value={mode} onChange={({ currentTarget }) => chat.choose({ mode: currentTarget.value as AnswerMode | '' })}>
            {(['', ...(chat.card?.brim.modes ?? [])] as const).map((name) => (
              <option value={name} key={name}>
                {name || 'default'}
              </option>
            ))}
          </select>
        </label>
        <span class="dim grow">{meanings[mode]}</span>
        <label>
          Max tokens{' '}
          <input
            type="number"
            min={1}
            value={maxTokens}
            onInput={({ currentTarget }) => chat.choose({ maxTokens: numberOf(currentTarget.value) || 256 })}
          />
        </label>
        <label>
          Reading, tokens/s{' '}
          <input
            type="number"
            min={0}
            step="any"
            value={tokensPerS ?? ''}
            onInput={({ currentTarget }) => chat.choose({ tokensPerS: numberOf(currentTarget.value) })}
          />
        </label>
        {chat.turns.length > 0 && (
          <button type="button" onClick={() => chat.clear()}>
            New
          </button>
        )}
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
    </form>
  )
}
