"""Ten threads work until one of them asks all to stop."""

import threading

import queuecore.tf1 as tf

coord = tf.train.Coordinator()
rounds = [0] * 10
second_round = threading.Event()


def work(number):
    """Go round and round until somebody asks to stop; number 1 does, in its second round."""
    while not coord.should_stop():
        rounds[number] += 1
        if number == 1 and rounds[number] == 2:
            coord.request_stop()
            second_round.set()
        coord.wait_for_stop(0.01)


threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
for thread in threads:
    thread.start()
coord.join(threads)

print("rounds:", rounds)
assert second_round.is_set()
assert rounds[1] == 2
assert coord.should_stop()
assert not any(thread.is_alive() for thread in threads)
