import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { systemClock } from '../../core/kit/base/clock.ts'
import { endingWithParent } from './ending-with-parent.ts'

const attempts = 400
const betweenAttemptsMs = 25

/** Starts a server, and resolves when it listens on this loopback port. @throws Error if it does not */
export async function startListening([program = '', ...args]: readonly string[], port: number): Promise<ChildProcess> {
  const command = [...endingWithParent(), program, ...args]
  const child = spawn(command[0]!, command.slice(1), { stdio: 'ignore' })
  for (let attempt = 0; attempt < attempts; attempt++) {
    if (child.exitCode !== null) throw new Error(`${program} exited with ${child.exitCode}`)
    if (await isListening(port)) return child
    await systemClock.sleep(betweenAttemptsMs)
  }
  await endProcess(child, 'SIGKILL')
  throw new Error(`${program} did not listen within ${(attempts * betweenAttemptsMs) / 1_000} s`)
}

/** Resolves when the process has ended. */
export async function endProcess(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const connected = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
  })
  socket.destroy()
  return connected
}
