"""An executor without processes, for tests of what is done with its events."""

from contextlib import contextmanager

from bilink.distributed.executor import Event, Executor, outcome


class Here(Executor):
    """Each task runs to its end when its events are asked for, and is deaf to ``stop``."""

    threads = 1
    workers = 1

    @contextmanager
    def start(self, function):
        self.function, self.waiting, self.submitted = function, [], 0
        yield self

    def submit(self, argument):
        self.submitted += 1
        self.waiting.append((self.submitted, argument))
        return self.submitted

    def stop(self, task):
        pass

    def events(self, timeout):
        task, argument = self.waiting.pop(0)
        events = []

        def report(message):
            events.append(Event(task, "report", message))
            return True

        events.append(Event(task, *outcome(self.function, argument, report)))
        return events
