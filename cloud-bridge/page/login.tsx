import { useState } from 'preact/hooks'
import type { OfferedLogin, User } from './api.ts'
import { Notice } from './parts.tsx'

interface Props {
  readonly server: 'agent' | 'bridge'
  readonly problem: string | undefined
  onKey(key: string): void
}

/** Asks for an API key, which stays in this tab and is sent to this server alone. */
export function LoginForm({ server, problem, onKey }: Props) {
  const [key, setKey] = useState('')
  return (
    <main class="login">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault()
          if (key.trim() !== '') onKey(key.trim())
        }}
      >
        <h1>Brim</h1>
        <p>
          {server === 'bridge'
            ? 'This bridge requires an API key. Where you are logged in, “brim login --browser” prints a URL that logs this browser in. At its machine, “brim bridge key create --name sam --role viewer” creates one; the role operator may also change things.'
            : 'This agent requires one of the keys of its --api-key-file.'}
        </p>
        <label>
          API key
          <input type="password" autocomplete="off" value={key} onInput={({ currentTarget }) => setKey(currentTarget.value)} />
        </label>
        <button type="submit" class="main">
          Log in
        </button>
        {problem !== undefined && <Notice text={problem} isProblem />}
        <p class="dim">The key is kept until this tab is closed, and is sent to this server alone.</p>
      </form>
    </main>
  )
}

interface OfferProps {
  readonly offered: OfferedLogin
  /** Null: this tab is not logged in. */
  readonly present: User | null
  accept(key: string): void
  decline(): void
}

/** Asks before a URL logs this tab in: its user could otherwise act with another's login unawares. */
export const LoginOffer = ({ offered: { name, role, token }, present, accept, decline }: OfferProps) => (
  <main class="login">
    <section class="card">
      <h1>
        Log in as <b>{name}</b> ({role})?
      </h1>
      <p>The URL that was opened has this login. Use it if you have made it just now, with “brim login --browser”.</p>
      <p class="bar">
        <button type="button" class="main" onClick={() => accept(token)}>
          Log in
        </button>
        <button type="button" onClick={decline}>
          {present ? `Stay ${present.name}` : 'Do not log in'}
        </button>
      </p>
    </section>
  </main>
)
