import { fstatSync } from 'node:fs'

const stderrFd = 2

/**
 * Whether stderr is connected to journald: systemd puts device and inode of that stream into JOURNAL_STREAM. A service that
 * redirects stderr to a file has the variable too.
 */
export function isJournal(env: Readonly<Record<string, string | undefined>>): boolean {
  if (!env.JOURNAL_STREAM) return false
  const { dev, ino } = fstatSync(stderrFd)
  return env.JOURNAL_STREAM === `${dev}:${ino}`
}
