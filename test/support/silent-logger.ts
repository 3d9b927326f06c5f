import { createLogger, type Logger } from '../../core/base/logger.ts'

export const silentLogger = (): Logger => createLogger('silent')
