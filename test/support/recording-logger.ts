import { pino } from 'pino'
import type { Logger } from '../../core/kit/base/logger.ts'

export function recordingLogger(level: string): { logger: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = []
  return { logger: pino({ level }, { write: (line: string) => lines.push(JSON.parse(line)) }), lines }
}
