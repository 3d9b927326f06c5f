import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { testBundle } from '../../core/model/engine/self-test-process.ts'
import { shared } from '../support/shared.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)

/** Processes that this one has started. */
const children = () =>
  readdirSync('/proc').filter((pid) => {
    try {
      const [, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ')
      return parent === `${process.pid}`
    } catch {
      return false
    }
  })

// systemd and the terminal signal every process of the agent, also the one of the self-test.
it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('a bundle is not wrong because its self-test got %s', async (signal) => {
  const before = children()
  const limits = { probeTimeoutS: 60, probeMemoryBytes: 2 ** 31 }
  const probing = testBundle(bundle.path, bundle.manifest, ['input', 'output'], {
    threads: 1,
    limits,
    signal: new AbortController().signal,
  })
  const ended = probing.then(
    () => 'passed',
    (error: { code?: string }) => error.code,
  )
  await expect.poll(() => children().length, { interval: 5 }).toBeGreaterThan(before.length)
  const [child] = children().filter((pid) => !before.includes(pid))
  process.kill(Number(child), signal)
  expect(await ended).toBe('RUNTIME_FAILED')
})
