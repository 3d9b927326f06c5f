import { z } from 'zod'
import type { AnswerMeter } from '../../core/answer/meter.ts'
import { answerPaths } from '../../core/api/answer-paths.ts'
import { serveAnswers } from '../../core/api/serve-answer.ts'
import { modelCard, modelCards, type Served } from '../../core/api/served.ts'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { answerOperations } from '../../core/protocol/http/answers.ts'
import { OwnResponse, type Routes } from '../http/router.ts'

export interface AnswerRoutesOptions {
  readonly served: Served
  readonly meter: AnswerMeter
  /** Maximum size of a request. */
  readonly maxBodyBytes: number
  readonly clock: Clock
  readonly logger: Logger
}

/** `/v1/chat/completions`, `/v1/completions`, `/v1/models`: OpenAI's API, answered by the bridge's own models. */
export function answerRoutes({ served, meter, maxBodyBytes, clock, logger }: AnswerRoutesOptions): Routes {
  return (router) => {
    for (const { path, read, format } of answerPaths) {
      // The reader names the wrong field as OpenAI does.
      const operation = { ...operationAt[path], body: z.unknown(), maxBodyBytes }
      router.serve(operation, async ({ body, headers, caller, id, reply, stopping }) => {
        const client = caller.key?.id ?? ''
        const request = read(body, served, { client, tokensPerS: headers['x-brim-tokens-per-s'] })
        const log = logger.child({ client: caller.actor.who })
        await serveAnswers({ clock, meter, logger: log, parallel: true, stopping }, format, request, reply, id)
        return new OwnResponse()
      })
    }
    router.serve(answerOperations.models, () => ({ object: 'list' as const, data: modelCards(served) }))
    router.serve(answerOperations.model, ({ params: { id } }) => modelCard(id, served))
  }
}

const operationAt = {
  [answerOperations.chat.path]: answerOperations.chat,
  [answerOperations.completion.path]: answerOperations.completion,
}
