import { useState } from 'preact/hooks'
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
