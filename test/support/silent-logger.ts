import { createLogger, type Logger } from '../../core/kit/base/logger.ts'

export const silentLogger = (): Logger => createLogger('silent')
