import { z } from 'zod'

/** Body of every response with a status of 400 and above. */
export const ErrorResponse = z.object({
  error: z.object({
    code: z.string().describe('Stable; docs/errors.md explains each one.'),
    message: z.string(),
    type: z.string().optional().describe("OpenAI's kind of error."),
    param: z.string().nullish().describe("The field of the request that is wrong, where the request is one of OpenAI's API."),
    hint: z.string().optional().describe('What to try.'),
    cause: z.string().optional(),
  }),
})
export type ErrorResponse = z.infer<typeof ErrorResponse>
